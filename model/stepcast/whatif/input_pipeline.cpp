// Hits of the cache, then the rate of storage, network and preparation, whichever is the slowest.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

namespace stepcast {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr std::array<std::string_view, 3> policy_names{"lru", "never-evict", "partitioned"};
constexpr std::array<std::string_view, 2> loader_names{"serial", "pipelined"};

template <class Names>
std::size_t index_of(const Names& names, std::string_view name, std::string_view where) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  throw InputError(std::string(where), "one of " + listed(known), in_quotes(name), did_you_mean(name, known));
}

std::string shown(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

/// "4651 samples/s".
std::string shown_rate(double samples_per_s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", samples_per_s);
  return std::isfinite(samples_per_s) ? std::string(text) + " samples/s" : "any number";
}

double per_second(Seconds each) { return each > Seconds(0) ? 1 / each.value() : unlimited; }
/// A rate of zero stands for no limit.
Seconds time_at(Bytes size, BytesPerSecond rate) { return rate.value() > 0 ? size / rate : Seconds(0); }

/// P(u v >= c) of two independent numbers that are uniform in [low, 1].
double product_at_least(double c, double low) {
  if (c <= low * low) return 1;
  if (c >= 1) return 0;
  const double area = (1 - low) * (1 - low);
  if (c >= low) return (1 - c + c * std::log(c)) / area;
  return 1 - (c * std::log(c / (low * low)) - c + low * low) / area;
}

/// Time of one sample, fetched by somebody who reads from storage at `storage`.
Seconds fetch_time_per_sample(const InputPipeline& p, const FetchShares& shares, BytesPerSecond storage) {
  const Bytes size = p.sample_size();
  return time_at(size * shares.memory, p.memory) + time_at(size * shares.network, p.network) +
         time_at(size * shares.storage, storage);
}

BytesPerSecond storage_of_worker(const InputPipeline& p) {
  return p.storage_per_worker.value() > 0 ? p.storage_per_worker : p.storage;
}

/// The smallest argument in [low, high] from which on a monotone condition holds; `high` if it never does.
double smallest(double low, double high, const std::function<bool(double)>& holds) {
  if (holds(low)) return low;
  for (int i = 0; i < 100 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

InputPipeline with_cached_share(InputPipeline p, double share) {
  p.cached_share = share;
  return p;
}

/// Rates that differ by rounding are the same.
bool reaches(double rate, double wanted) { return rate >= wanted * (1 - 1e-12); }

}  // namespace

std::string_view name_of(CachePolicy policy) { return policy_names[static_cast<std::size_t>(policy)]; }
std::string_view name_of(LoaderLaw law) { return loader_names[static_cast<std::size_t>(law)]; }
CachePolicy cache_policy_of(std::string_view name, std::string_view where) {
  return static_cast<CachePolicy>(index_of(policy_names, name, where));
}
LoaderLaw loader_law_of(std::string_view name, std::string_view where) {
  return static_cast<LoaderLaw>(index_of(loader_names, name, where));
}

InputPipeline checked(InputPipeline p, std::string_view source) {
  const auto require = [&](bool good, const char* key, const char* expected, const std::string& found) {
    if (!good) throw InputError(std::string(source) + "#/" + key, expected, found);
  };
  const auto rate = [&](BytesPerSecond r, const char* key, bool required) {
    const double low = required ? std::numeric_limits<double>::denorm_min() : 0;
    require(std::isfinite(r.value()) && r.value() >= low, key, "a positive rate", shown(r.value()) + " B/s");
  };
  const double size = p.data_set.value();
  require(size > 0 && size <= 1e21, "data_set", "a positive size", shown(size) + " B");
  require(p.samples >= 1 && p.samples <= 1e15, "samples", "a number of samples of at least 1", shown(p.samples));
  require(p.cached_share >= 0 && p.cached_share <= 1, "cached_share", "a share from 0 to 1", shown(p.cached_share));
  rate(p.storage, "storage", true);
  rate(p.storage_per_worker, "storage_per_worker", false);
  rate(p.memory, "memory", false);
  rate(p.network, "network", p.cache == CachePolicy::partitioned);
  require(p.prep_samples_per_s >= 0 && p.prep_samples_per_s <= 1e15, "prep_samples_per_s", "a rate of at least 0",
          shown(p.prep_samples_per_s));
  require(p.workers >= 0 && p.workers <= 1'000'000, "workers", "a number from 0 to 1000000", std::to_string(p.workers));
  require(p.jobs >= 1 && p.jobs <= 1'000'000, "jobs", "a number from 1 to 1000000", std::to_string(p.jobs));
  return p;
}

double lru_hit_share(double share, std::int64_t servers) {
  if (share <= 0) return 0;
  if (share >= 1) return 1;
  // The limit of many servers, which is closer than a thousandth here, saves a long sum.
  if (servers > 1000) return share;
  // A sample that was read at u of epoch 0 comes back at v of epoch g, with a chance of 1/n in each epoch. All others
  // stay unread with the probability (1 - (1-u)/n) (1 - 1/n)^(g-1) (1 - v/n); it hits while that is at least 1 - x.
  const double each = 1 / static_cast<double>(servers), elsewhere = 1 - each;
  double hits = 0, comes_back = each;
  for (double least = 1 - share; least < 1; least /= elsewhere, comes_back *= elsewhere)
    hits += comes_back * product_at_least(least, elsewhere);
  return hits;
}

FetchShares fetch_shares(const InputPipeline& p, std::int64_t servers) {
  const double n = static_cast<double>(servers);
  switch (p.cache) {
    case CachePolicy::lru: {
      const double hits = lru_hit_share(p.cached_share, servers);
      return {hits, 0, 1 - hits};
    }
    case CachePolicy::never_evict:
      return {p.cached_share, 0, 1 - p.cached_share};
    case CachePolicy::partitioned: {
      // Misses max(0, D - n cache); of the rest one n-th lies in the server's own memory (CoorDL).
      const double cached = std::min(1.0, n * p.cached_share);
      return {cached / n, cached * (n - 1) / n, 1 - cached};
    }
  }
  return {0, 0, 1};
}

Seconds fetch_time(const InputPipeline& p, std::int64_t servers) {
  return fetch_time_per_sample(p, fetch_shares(p, servers), p.storage) * (p.samples / static_cast<double>(servers));
}

InputRates input_rates(const InputPipeline& p, std::int64_t servers) {
  const FetchShares shares = fetch_shares(p, servers);
  const double jobs = p.coordinated ? 1 : static_cast<double>(p.jobs);
  const double workers = static_cast<double>(std::max<std::int64_t>(1, p.workers));
  const double fetch = per_second(fetch_time_per_sample(p, shares, p.storage));
  const double prep = p.prep_samples_per_s > 0 ? workers * p.prep_samples_per_s : unlimited;
  double total = std::min(fetch, prep);
  if (p.loader == LoaderLaw::serial) {
    // One worker after another: 1/R = 1/F + 1/P each. Together they cannot read faster than the storage.
    const Seconds prepares(p.prep_samples_per_s > 0 ? 1 / p.prep_samples_per_s : 0);
    const Seconds each = fetch_time_per_sample(p, shares, storage_of_worker(p)) + prepares;
    total = std::min(total, workers * per_second(each));
  }
  return {fetch / jobs, prep / jobs, total / jobs};
}

Seconds batch_period(const InputPipeline& p, double samples, std::int64_t servers) {
  return Seconds(samples / input_rates(p, servers).total);
}

Seconds step_with_input(const InputPipeline& p, Seconds step, double samples, std::int64_t servers) {
  const Seconds period = batch_period(p, samples, servers);
  return p.workers == 0 ? step + period : std::max(step, period);
}

double optimal_cached_share(const InputPipeline& p, double demand, std::int64_t servers) {
  const auto rate = [&](double share) { return input_rates(with_cached_share(p, share), servers).total; };
  const double wanted = std::min(demand, rate(1));
  return smallest(0, 1, [&](double share) { return reaches(rate(share), wanted); });
}

std::int64_t sufficient_workers(const InputPipeline& p, double demand, std::int64_t servers) {
  constexpr std::int64_t most = 1'000'000;
  const auto rate = [&](std::int64_t workers) {
    InputPipeline changed = p;
    changed.workers = workers;
    return input_rates(changed, servers).total;
  };
  const double wanted = std::min(demand, rate(most));
  std::int64_t low = 0, high = most;  // `low` is too few, `high` is enough
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (reaches(rate(middle), wanted) ? high : low) = middle;
  }
  return high;
}

InputStalls input_stalls(const InputPipeline& p, Seconds step, double samples, std::int64_t servers) {
  return {step, step_with_input(with_cached_share(p, 1), step, samples, servers),
          step_with_input(p, step, samples, servers)};
}

namespace {

/// How long a step waits for what, and how far more cache or more workers would help: DS-Analyzer's answers. Empty
/// where there is no step. `alone`: the step with synthetic data.
std::string stalls_told(const InputPipeline& p, Seconds alone, double samples, std::int64_t servers) {
  const InputStalls stalls = input_stalls(p, alone, samples, servers);
  if (!(alone > Seconds(0))) return {};
  const double demand = samples / alone.value();
  const std::string cache = shown(std::round(1000 * optimal_cached_share(p, demand, servers)) / 10),
                    workers = std::to_string(sufficient_workers(p, demand, servers));
  if (!(stalls.actual > alone))
    return "; the step, " + text_of(alone) + " by itself, does not wait, nor would it with a cache of " + cache +
           " % of the data set, or with " + workers + (workers == "1" ? " loader worker" : " loader workers");
  return "; the step, " + text_of(alone) + " by itself, waits " + text_of(stalls.fetch_stall()) + " for fetching and " +
         text_of(stalls.prep_stall()) + " for preparing; a cache helps up to " + cache +
         " % of the data set, loader workers up to " + workers;
}

}  // namespace

Profile with_input_pipeline(Profile profile, const InputPipeline& p, const Cluster& cluster) {
  if (!(profile.batch_samples > 0))
    throw InputError("input pipeline", "a profile that says how many samples a step takes", "none",
                     "say it with --batch");
  const double samples = profile.batch_samples * static_cast<double>(cluster.devices_per_node);
  const Seconds period = batch_period(p, samples, cluster.nodes);
  const std::string traced = profile.input > Seconds(0) ? ", in place of a wait of " + text_of(profile.input) : "";
  profile.input = profile.input_period = Seconds(0);
  const Seconds alone = lone_step_time(profile);
  profile.input = p.workers == 0 ? period : Seconds(0);
  profile.input_period = p.workers == 0 ? Seconds(0) : period;
  const InputRates rates = input_rates(p, cluster.nodes);
  profile.assumed.push_back("input from '" + p.name + "': a machine loads " + shown_rate(rates.total) + " (fetching " +
                            shown_rate(rates.fetch) + ", preparing " + shown_rate(rates.prep) + "), a batch every " +
                            text_of(period) + traced + stalls_told(p, alone, samples, cluster.nodes));
  return profile;
}

}  // namespace stepcast
