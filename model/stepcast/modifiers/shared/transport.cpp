// Loss turns into time: the stalls of the slowest flow, or rounds of repair.
#include <stepcast/base/error.hpp>
#include <stepcast/modifiers/shared/transport.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace stepcast {
namespace {

constexpr int longest_backoff = 6;  // doublings: 64 times the first time-out, as in RFC 6298 and common kernels
constexpr int most_stalls = 2000;

void check(const char* what, bool good, const char* expected, double found) {
  if (!good) throw InputError(std::string("transport ") + what, expected, std::to_string(found));
}

/// Probability that no path has more than `most` of the flows, each of which takes any path: the paths are filled one
/// after the other, the next of k left taking a binomial share 1/k of the flows that are left.
double probability_of_at_most(std::int64_t most, std::int64_t flows, std::int64_t paths) {
  const auto n = static_cast<std::size_t>(flows);
  std::vector<double> left(n + 1, 0), next(n + 1);
  left[n] = 1;
  for (std::int64_t path = paths; path > 1; --path) {
    std::fill(next.begin(), next.end(), 0);
    const double p = 1 / static_cast<double>(path), odds = p / (1 - p);
    for (std::size_t k = 0; k <= n; ++k) {
      if (left[k] == 0) continue;
      double binomial = std::exp(static_cast<double>(k) * std::log1p(-p));
      const std::size_t limit = std::min(k, static_cast<std::size_t>(most));
      for (std::size_t j = 0; j <= limit; ++j) {
        next[k - j] += left[k] * binomial;
        binomial *= odds * static_cast<double>(k - j) / static_cast<double>(j + 1);
      }
    }
    left.swap(next);
  }
  double sum = 0;
  for (std::size_t k = 0; k <= std::min(n, static_cast<std::size_t>(most)); ++k) sum += left[k];
  return sum;
}

/// How long a flow waits that stalls `times` times in a row.
Seconds stall_of(const Transport& t, int times) {
  double units = 0;
  for (int k = 0; k < times; ++k) units += std::exp2(std::min(k, longest_backoff));
  return t.timeout * units;
}

/// Probability that some flow stalls at least k times in a row.
double some_flow_stalls(const Transport& t, int k) {
  return -std::expm1(static_cast<double>(t.flows) * std::log1p(-std::pow(t.stall_probability, k)));
}

}  // namespace

Transport checked(const Transport& t) {
  // The smallest probabilities of how flows spread, 2^-flows, have to be numbers.
  check("flows", t.flows >= 1 && t.flows <= 1000, "1 to 1000 flows", static_cast<double>(t.flows));
  check("paths", t.paths >= 1 && t.paths <= 1000, "1 to 1000 paths", static_cast<double>(t.paths));
  check("stall probability", t.stall_probability >= 0 && t.stall_probability < 1, "a probability from 0, below 1",
        t.stall_probability);
  check("loss", t.loss >= 0 && t.loss < 1, "a share from 0, below 1", t.loss);
  check("oversubscription", t.oversubscription > 0 && std::isfinite(t.oversubscription), "a positive ratio",
        t.oversubscription);
  check("time-out", t.timeout >= Seconds(0) && std::isfinite(t.timeout.value()), "a time of at least zero",
        t.timeout.value());
  check("round trip", t.round_trip >= Seconds(0) && std::isfinite(t.round_trip.value()), "a time of at least zero",
        t.round_trip.value());
  check("packet", t.packet > Bytes(0) && std::isfinite(t.packet.value()), "a positive size", t.packet.value());
  return t;
}

double fullest_path(std::int64_t flows, std::int64_t paths) {
  if (paths <= 1 || flows < 1) return 1;
  // E[max] = sum over m of P(max > m); the fullest path has at least the mean.
  const std::int64_t least = (flows + paths - 1) / paths;
  double expected = static_cast<double>(least);
  for (std::int64_t most = least; most < flows; ++most) {
    const double more = 1 - probability_of_at_most(most, flows, paths);
    if (more < 1e-12) break;
    expected += more;
  }
  return expected * static_cast<double>(paths) / static_cast<double>(flows);
}

double path_factor(const Transport& t) {
  const double unevenness = t.spraying ? 1 : fullest_path(t.flows, t.paths);
  return std::max(1.0, t.oversubscription * unevenness);
}

double stall_anywhere(const Transport& t) { return some_flow_stalls(t, 1); }

Seconds expected_stall(const Transport& t) {
  double units = 0;
  for (int k = 1; k <= most_stalls; ++k) {
    const double more = std::exp2(std::min(k - 1, longest_backoff)) * some_flow_stalls(t, k);
    units += more;
    if (more < 1e-15 * units || more == 0) break;
  }
  return t.timeout * units;
}

Seconds stall_quantile(const Transport& t, double p) {
  int times = 0;
  while (times < most_stalls && 1 - some_flow_stalls(t, times + 1) < p) ++times;
  return stall_of(t, times);
}

int repair_rounds(Bytes message, const Transport& t, double tolerated) {
  if (t.loss <= tolerated || message <= Bytes(0)) return 0;
  int rounds = 1;
  for (double missing = (t.loss - tolerated) * message.value() * t.loss; missing >= t.packet.value() && rounds < 1000;
       missing *= t.loss)
    ++rounds;
  return rounds;
}

Delivery bounded_loss_delivery(Bytes message, BytesPerSecond link, const Transport& t, double tolerated) {
  check("tolerated loss", tolerated >= 0 && tolerated <= 1, "a share from 0 to 1", tolerated);
  Delivery delivery;
  delivery.repair_rounds = repair_rounds(message, t, tolerated);
  delivery.lost = std::min(t.loss, tolerated);
  const Bytes sent = message * ((1 - tolerated) / (1 - t.loss));
  // What is sent at most once costs no more than the message.
  delivery.mean = sent / link * path_factor(t) + t.round_trip * delivery.repair_rounds;
  delivery.tail = delivery.mean;
  return delivery;
}

Delivery reliable_delivery(Bytes message, BytesPerSecond link, const Transport& t) {
  Delivery delivery = bounded_loss_delivery(message, link, t, 0);
  delivery.tail += stall_quantile(t, 0.99);
  delivery.mean += expected_stall(t);
  return delivery;
}

}  // namespace stepcast
