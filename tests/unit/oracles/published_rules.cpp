// A worker's passes in program order, then the messages of each strategy around them.
#include "oracles/published_rules.hpp"

#include "oracles/collective_times.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

namespace stepcast::test {
namespace {

using Waits = std::vector<Wait>;
using Tensors = std::vector<std::uint32_t>;

struct NotWritten : std::runtime_error {
  using runtime_error::runtime_error;
};

double option(const OptionValues& values, std::span<const OptionSpec> specs, std::string_view name) {
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name == name) return values[i];
  throw std::logic_error("no option " + std::string(name));
}

// ---- compressors: bytes and times of a tensor ----------------------------------------------------------------------

struct Code {
  double sent = 0, first = 0, aside = 0, back = -1, encode = 0, between = 0, decode = 0;  // back < 0: the sum
  Code& operator+=(const Code& o) {
    sent += o.sent, first += o.first, aside += o.aside, encode += o.encode, between += o.between, decode += o.decode;
    back = o.back < 0 ? -1 : std::max(back, 0.0) + o.back;
    return *this;
  }
  Code operator*(double k) const {
    return {sent * k, first * k, aside * k, back < 0 ? -1 : back * k, encode * k, between * k, decode * k};
  }
};
enum class Sum { on_the_way, gathered, scattered, along_tree, on_servers };
struct Compressor {
  std::function<Code(const Tensor&)> code;
  Sum sum = Sum::on_the_way;
  bool overlapped = true, two_exchanges = false;
};

// Seconds of a codec for so many elements. V100: ms for the 25.559 M gradients of ResNet-50 (GRACE).
struct Pace {
  double v100_ms, host_ns;
};

Compressor compressor_of(const ModifierSpec& asked, const Profile& profile, const Cluster& cluster) {
  const std::string name(asked.modifier->name);
  const auto value = [&](std::string_view n) { return option(asked.options, asked.modifier->options, n); };
  const double machines = static_cast<double>(cluster.nodes);
  const bool device = profile.has_device();
  const double speed = name == "fp16" ? 1 : value("speed");
  const auto time = [=](Pace p, double elements) {
    return (device ? p.v100_ms * 1e-3 / 25.559e6 : p.host_ns * 1e-9) * elements / speed;
  };
  const auto count = [](const Tensor& t) { return t.size.value() / size_of(t.dtype); };
  const auto matrix = [=](const Tensor& t) {
    if (t.shape.size() < 2) return std::pair(0.0, 0.0);
    const double rows = static_cast<double>(t.shape[0]);
    return std::pair(rows, count(t) / rows);
  };
  Compressor out;
  out.overlapped = value("overlap") != 0;
  const auto signs = [&](Pace encode, Pace decode, double extra, bool voted) {
    const double bytes = value("values") == 0 ? 1 : 1 / 8.;
    out.sum = Sum::gathered;
    out.code = [=](const Tensor& t) {
      const double d = count(t), sent = d * bytes + extra;
      return Code{.sent = sent, .back = voted ? sent : -1, .encode = time(encode, d), .decode = time(decode, d)};
    };
  };
  const auto selection = [&](double kept, double index, Pace all, Pace each) {
    out.sum = Sum::gathered;
    out.code = [=](const Tensor& t) {
      const double d = count(t), k = kept * d;
      return Code{
          .sent = k * (size_of(t.dtype) + index), .encode = time(all, d) + time(each, k), .decode = time(each, k)};
    };
  };
  constexpr double vote = 23 / 9.;  // signSGD on a V100: one encoding and eight decodings
  if (name == "fp16") {
    const double memory = value("memory");
    out.code = [=](const Tensor& t) {
      if (size_of(t.dtype) <= 2) return Code{.sent = t.size.value()};
      const double d = count(t), half = 2 * d, touched = (t.size.value() + half) / memory;
      if (memory > 0) return Code{.sent = half, .encode = touched, .decode = touched};
      const double cast = 6 * d / 900e9;  // of 4 bytes and 2, in the 900 GB/s of a V100
      return Code{.sent = half, .encode = device ? cast : 0.33e-9 * d, .decode = device ? cast : 0.23e-9 * d};
    };
  } else if (name == "topk") {
    selection(value("fraction"), value("index") == 0 ? 4 : 8, {261.1, 20.3}, {285.7 / 9, 2.7});
  } else if (name == "dgc") {
    constexpr std::array warm_up{0.25, 0.0625, 0.0156, 0.004};
    double kept = value("fraction");
    if (value("epoch") < 4) kept = std::max(kept, warm_up[static_cast<std::size_t>(value("epoch"))]);
    selection(kept, 4, {175.8, 3.8}, {252.5 / 9, 2.7});
  } else if (name == "threshold") {
    selection(value("kept"), 4, {vote, 2.8}, {285.7 / 9, 2.7});
  } else if (name == "randomk") {
    const double fraction = value("fraction");
    out.code = [=](const Tensor& t) {
      const double d = count(t), k = fraction * d;
      return Code{.sent = fraction * t.size.value(),
                  .encode = time({9.6, 0.38}, d) + time({140.8 / 2, 7.6}, k),
                  .decode = time({140.8 / 2, 3.1}, k)};
    };
  } else if (name == "signsgd") {
    signs({vote, 0.63}, {vote, 0.71}, 0, true);
  } else if (name == "signum") {
    signs({45 - 8 * vote, 1.04}, {vote, 0.71}, 0, true);
  } else if (name == "efsign") {
    signs({32 - 8 * vote, 2.9}, {vote, 0.71}, 4, false);
  } else if (name == "onebit") {
    signs({32 - 8 * vote, 20.4}, {vote, 0.71}, 8, false);
  } else if (name == "qsgd") {
    const double levels = value("levels");
    const double bytes =
        value("values") == 0 ? (levels < 128 ? 1 : 2) : std::ceil(std::log2(2 * levels + 1)) / 8 + 4 / value("bucket");
    out.sum = Sum::gathered;
    out.code = [=](const Tensor& t) {
      const double d = count(t);
      return Code{.sent = d * bytes, .encode = time({206 / 9., 14.5}, d), .decode = time({206 / 9., 0.44}, d)};
    };
  } else if (name == "terngrad") {
    const double bits = value("values") == 0 ? 8 : 2, sum = std::max(bits, std::ceil(std::log2(2 * machines + 1)));
    out.sum = Sum::gathered;
    out.code = [=](const Tensor& t) {
      const double d = count(t);
      return Code{.sent = d * bits / 8 + 4,
                  .back = d * sum / 8 + 4,
                  .encode = time({206 / 9., 23.8}, d),
                  .decode = time({206 / 9., 0.44}, d)};
    };
  } else if (name == "natural") {
    out.sum = Sum::gathered;
    out.code = [=](const Tensor& t) {
      const double d = count(t);
      return Code{.sent = d, .encode = time({196 / 9., 21}, d), .decode = time({196 / 9., 9.1}, d)};
    };
  } else if (name == "twobit") {
    out.sum = Sum::on_servers;
    out.code = [=](const Tensor& t) {
      const double d = count(t);  // 12.25 bytes of memory an element
      const double quantise = device ? 12.25 * d / 900e9 / speed : 6e-9 * d / speed;
      return Code{.sent = d / 4, .back = t.size.value(), .encode = quantise};
    };
  } else if (name == "powersgd") {
    const double most = value("rank"), saving = value("least_saving");
    out.code = [=](const Tensor& t) {
      const auto [rows, columns] = matrix(t);
      const double d = count(t), rank = std::min({most, rows, columns}), b = size_of(t.dtype);
      if (!(rank > 0) || rank * (rows + columns) * saving >= d) return Code{.aside = t.size.value()};
      const double fixed = time({12, 0.76}, d) / 2, product = rank * time({7.25, 1.8}, d) / 3;
      return Code{.sent = rank * columns * b,
                  .first = rank * rows * b,
                  .encode = fixed + product,
                  .between = product,
                  .decode = fixed + product};
    };
    for (const Tensor& t : profile.tensors) out.two_exchanges = out.two_exchanges || out.code(t).first > 0;
  } else if (name == "acpsgd") {
    const double most = value("rank");
    out.code = [=](const Tensor& t) {
      const auto [rows, columns] = matrix(t);
      const double d = count(t), rank = std::min({most, rows, columns}), sent = rank * (rows + columns) / 2;
      if (!(sent > 0) || 2 * sent >= d) return Code{.sent = t.size.value()};
      const double half = (time({12, 0.76}, d) + rank * time({7.25, 1.8}, d)) / 4;  // half of PowerSGD's, in two halves
      return Code{.sent = sent * size_of(t.dtype), .encode = half, .decode = half};
    };
  } else if (name == "int8") {
    out.sum = Sum::gathered;
    out.code = [=](const Tensor& t) {
      const double d = count(t);
      return Code{
          .sent = d + 4, .back = d + 4, .encode = time({206 / 9., 14.5}, d), .decode = time({206 / 9., 0.44}, d)};
    };
  } else if (name == "sketchml") {
    const double buckets = value("buckets"), look_up = 196 / 9.;  // GRACE: 270 ms for an encoding and eight look-ups
    out.sum = Sum::gathered;
    out.code = [=](const Tensor& t) {
      const double d = count(t);
      return Code{.sent = (buckets > 256 ? 2 : 1) * d + 4 * buckets,
                  .encode = time({270 - 8 * look_up, 20.3}, d),
                  .decode = time({look_up, 0.44}, d)};
    };
  } else if (name == "sketched_sgd") {
    const double kept = value("fraction"), rows = value("rows"), columns = value("columns");
    out.two_exchanges = true;
    out.code = [=](const Tensor& t) {
      const double d = count(t);
      const Pace add{285.7 / 9, 2.2}, look{285.7 / 9, 3.2}, select{261.1, 20.3};
      return Code{.sent = kept * t.size.value(),
                  .first = rows * columns * d * 4,
                  .encode = rows * time(add, d),
                  .between = rows * time(look, d) + time(select, d),
                  .decode = kept * time(add, d)};
    };
  } else if (name == "gtopk") {
    const double kept = value("fraction"), index = value("index") == 0 ? 4 : 8;
    out.sum = Sum::along_tree;
    out.two_exchanges = true;
    out.code = [=](const Tensor& t) {
      const double d = count(t), k = kept * d;
      const Pace select{261.1, 20.3}, add{285.7 / 9, 2.7};
      return Code{.sent = k * (size_of(t.dtype) + index),
                  .encode = time(select, d) + time(add, k),
                  .between = time(add, k) + time(select, 2 * k),
                  .decode = time(add, k)};
    };
  } else if (name == "doublesqueeze" && value("operator") == 1) {
    const double kept = value("fraction");
    out.sum = Sum::scattered;
    out.two_exchanges = true;
    out.code = [=](const Tensor& t) {
      const double d = count(t), k = kept * d;
      const Pace select{261.1, 20.3}, add{285.7 / 9, 2.7};
      return Code{.sent = k * (size_of(t.dtype) + 4), .encode = time(select, d) + time(add, k), .decode = time(add, k)};
    };
  } else if (name == "onebit_adam" || name == "onebit_lamb" || name == "zero_one_adam" || name == "doublesqueeze") {
    out.sum = Sum::scattered;
    out.two_exchanges = true;
    out.code = [=](const Tensor& t) {
      const double d = count(t);
      return Code{.sent = d / 8 + 4, .encode = time({32 - 8 * vote, 2.9}, d), .decode = time({vote, 0.71}, d)};
    };
  } else {
    throw NotWritten(name);
  }
  return out;
}

// ---- the worker ----------------------------------------------------------------------------------------------------

enum class Update { once, by_layer, elsewhere };

class Worker {
 public:
  explicit Worker(const AskedRules& in, bool rules = true)
      : p_(in.profile),
        c_(in.cluster),
        spec_(in.spec),
        phase_(in.phase),
        name_(in.spec.strategy->name),
        times_(in.cluster, std::string(collective_of(in.spec))),
        workers_(in.cluster.workers()),
        machines_(static_cast<double>(in.cluster.nodes)),
        devices_(static_cast<double>(in.cluster.devices_per_node)) {
    for (const ModifierSpec& m : in.spec.modifiers) {
      if (!rules) break;
      const std::string_view name = m.modifier->name;
      const auto steps = [&](std::string_view o) {
        return static_cast<std::uint32_t>(option(m.options, m.modifier->options, o));
      };
      if (name == "local") iterations_ = steps("period");
      else if (name == "accumulate") iterations_ = steps("steps"), one_update_ = iterations_ > 1;
      else if (code_) throw NotWritten("two compressors");
      else if (name == "zero_one_adam") iterations_ = steps("period"), code_ = compressor_of(m, in.profile, in.cluster);
      else code_ = compressor_of(m, in.profile, in.cluster);
    }
    if (workers_ == 1) code_.reset();
  }

  /// What a plan says, edge by edge.
  Job job(const CommPlan& plan) {
    iterations_ = plan.period;
    one_update_ = plan.one_update;
    std::vector<bool> entered(p_.layers.size(), false);
    for (const Edge& e : plan.edges)
      if (e.from.kind == NodeKind::forward_entry) entered[e.from.index] = true;
    passes(plan.update == UpdatePlace::after_backward   ? Update::once
           : plan.update == UpdatePlace::before_forward ? Update::by_layer
                                                        : Update::elsewhere,
           plan.update_per_tensor.value(), entered);
    std::vector<std::uint32_t> channels, transfers, codecs;
    for (const Channel& c : plan.channels) {
      const bool clock = c.discipline == Discipline::parallel;
      channels.push_back(station(clock                                  ? Order::at_once
                                 : c.discipline == Discipline::fifo     ? Order::first_come
                                 : c.discipline == Discipline::in_order ? Order::in_turn
                                                                        : Order::most_urgent,
                                 clock ? Kind::clock : Kind::link, std::floor(c.credit.value())));
      job_.stations.back().interrupts = c.preemptive;
    }
    for (const Transfer& t : plan.transfers) {
      const bool clock = job_.stations[channels[t.channel]].kind == Kind::clock;
      if (clock) transfers.push_back(activity(t.delay.value(), channels[t.channel], {}, t.priority));
      else transfers.push_back(message(t.operation, t.size.value(), channels[t.channel], t.priority, {}));
      if (clock) continue;
      Activity& sent = job_.activities.back();
      sent.seconds += t.overhead.value();
      if (t.may_lose) sent.packets = sent.arrives_after = 0;
      sent.arrives_after += t.after.value();
    }
    std::uint32_t processor = none;
    for (const Codec& c : plan.codecs) {
      const bool beside = c.engine == Engine::processor;
      if (beside && processor == none) processor = station(Order::first_come, Kind::host);
      codecs.push_back(beside ? activity(c.time.value(), processor, {}, -1) : codec(c.time.value(), {}));
    }
    const auto node = [&](const Node& n, bool source) {
      switch (n.kind) {
        case NodeKind::transfer:
          return transfers[n.index];
        case NodeKind::codec:
          return codecs[n.index];
        case NodeKind::forward_entry:
          return entry_[n.phase][n.index];
        case NodeKind::forward:
          return (source ? forward_end_ : forward_)[n.phase][n.index];
        case NodeKind::backward:
          return backward_[n.phase][n.index];
        case NodeKind::update:
          return updates_[n.phase];
      }
      return none;
    };
    for (const Edge& e : plan.edges) wait(node(e.to, false), {{node(e.from, true), e.lag}});
    job_.iterations = iterations_;
    return std::move(job_);
  }

  Job job() {
    const std::map<std::string, void (Worker::*)()> rules{{"bsp", &Worker::bsp},
                                                          {"wfbp", &Worker::wfbp},
                                                          {"ddp", &Worker::ddp},
                                                          {"horovod", &Worker::horovod},
                                                          {"mg_wfbp", &Worker::mg_wfbp},
                                                          {"optimal_merge", &Worker::optimal_merge},
                                                          {"bytescheduler", &Worker::bytescheduler},
                                                          {"dear", &Worker::dear},
                                                          {"bsp_ps", &Worker::bsp_ps},
                                                          {"wfbp_ps", &Worker::wfbp_ps},
                                                          {"byteps", &Worker::byteps},
                                                          {"bytescheduler_ps", &Worker::bytescheduler_ps},
                                                          {"p3", &Worker::p3},
                                                          {"tictac", &Worker::tictac},
                                                          {"lb_sgd", &Worker::lb_sgd},
                                                          {"switchml", &Worker::switchml},
                                                          {"dist_sync", &Worker::dist_sync},
                                                          {"od_sgd", &Worker::od_sgd},
                                                          {"ssd_sgd", &Worker::ssd_sgd},
                                                          {"cd_sgd", &Worker::cd_sgd},
                                                          {"bit_sgd", &Worker::bit_sgd},
                                                          {"overlap_local_sgd", &Worker::overlap_local_sgd},
                                                          {"overlay", &Worker::overlay},
                                                          {"dc_dgd", &Worker::dc_dgd},
                                                          {"d_psgd", &Worker::d_psgd},
                                                          {"ad_psgd", &Worker::ad_psgd},
                                                          {"easgd", &Worker::easgd},
                                                          {"asgd", &Worker::asgd},
                                                          {"ssp", &Worker::ssp},
                                                          {"ist", &Worker::ist}};
    const auto rule = rules.find(name_);
    if (rule == rules.end()) throw NotWritten(name_);
    (this->*rule->second)();
    job_.iterations = iterations_;
    return std::move(job_);
  }

 private:
  double value(std::string_view name) const { return option(spec_.options, spec_.strategy->options, name); }
  std::uint32_t tensors() const { return static_cast<std::uint32_t>(p_.tensors.size()); }
  double bytes(std::uint32_t t) const { return p_.tensors[t].size.value(); }
  double all_bytes() const {
    double sum = 0;
    for (const Tensor& t : p_.tensors) sum += t.size.value();
    return sum;
  }

  // -- stations and activities

  std::uint32_t station(Order order, Kind kind, double window = 0) {
    job_.stations.push_back({order, kind, window});
    return static_cast<std::uint32_t>(job_.stations.size() - 1);
  }
  std::uint32_t activity(double seconds, std::uint32_t at, Waits waits, double urgency = 0) {
    job_.activities.push_back({seconds, at, urgency, 0, 1, std::move(waits)});
    if (job_.stations[at].kind == Kind::compute)
      job_.activities.back().slow_down = c_.contention.compute_under_communication;
    return static_cast<std::uint32_t>(job_.activities.size() - 1);
  }
  std::uint32_t message(Operation op, double size, std::uint32_t at, double urgency, Waits waits) {
    if (!times_.has(op)) throw NotWritten("an operation that the collective does not define");
    const std::uint32_t a = activity(times_.seconds(op, size), at, std::move(waits), urgency);
    job_.activities[a].bytes = std::floor(size);
    job_.activities[a].slow_down = times_.slow_down(op, size);
    job_.activities[a].packets = times_.packets(op, size);
    job_.activities[a].arrives_after = times_.repairs(job_.activities[a].packets);
    return a;
  }
  std::uint32_t timer(double seconds, Waits waits) {
    if (clock_ == none) clock_ = station(Order::at_once, Kind::clock);
    return activity(seconds, clock_, std::move(waits));
  }
  /// Work of the compute stream that is no pass: it comes first among what is ready at the same time.
  std::uint32_t codec(double seconds, Waits waits) {
    job_.stations[compute_].order = Order::first_come;
    return activity(seconds, compute_, std::move(waits), -1);
  }
  void wait(std::uint32_t activity, const Waits& for_these, std::uint32_t more_back = 0) {
    for (const Wait& w : for_these) job_.activities[activity].waits.push_back({w.activity, w.back + more_back});
  }

  // -- passes in program order

  void passes(Update update, double per_tensor = 0, const std::vector<bool>& entered = {}) {
    update_ = update;
    two_streams_ = p_.has_device();
    if (two_streams_) host_ = station(Order::at_once, Kind::host);
    compute_ = station(Order::at_once, Kind::compute);
    if (p_.input_period > Seconds(0)) loader_ = station(Order::at_once, Kind::host);
    const std::size_t layers = p_.layers.size();
    std::vector<double> share(layers, 0), count(layers, 0);
    for (const Tensor& t : p_.tensors)
      ++count[t.layer], share[t.layer] += all_bytes() > 0 ? t.size.value() / all_bytes() : 0;
    if (!(all_bytes() > 0)) share[0] = 1;
    for (std::uint32_t i = 0; i < iterations_; ++i) {
      first_of_host_.push_back(none);
      if (p_.late > Seconds(0)) {
        if (two_streams_) on_host(p_.late.value());
        on_compute(p_.late.value(), {});
        job_.activities.back().slow_down = 1;
      }
      if (p_.input > Seconds(0) || loader_ != none) takes_.push_back(pass(p_.input.value(), 0, true));
      forward_.emplace_back(), forward_end_.emplace_back(), backward_.emplace_back(layers), entry_.emplace_back();
      for (std::size_t l = 0; l < layers; ++l) {
        entry_[i].push_back(none);
        if (!entered.empty() && entered[l]) {
          entry_[i][l] = on_compute(0, {});
          job_.activities.back().slow_down = 1;
        }
        std::uint32_t begins = none;
        if (update == Update::by_layer && (!one_update_ || i == 0)) {
          double host = p_.optimizer.host.value() * share[l], device = p_.optimizer.device.value() * share[l];
          double& busy = two_streams_ ? device : host;
          busy = std::max(busy, per_tensor * count[l]);
          if (host + device > 0) begins = pass(host, device);
        }
        const std::uint32_t run = pass(p_.layers[l].forward.host.value(), p_.layers[l].forward.device.value());
        forward_[i].push_back(begins == none ? run : begins);
        forward_end_[i].push_back(run);
      }
      for (const std::uint32_t l : p_.backward_order)
        backward_[i][l] = pass(p_.layers[l].backward.host.value(), p_.layers[l].backward.device.value());
      updates_.push_back(none);
      if (update == Update::once && (!one_update_ || i + 1 == iterations_))
        updates_[i] = pass(p_.optimizer.host.value(), p_.optimizer.device.value());
      if (p_.other.host + p_.other.device > Seconds(0)) pass(p_.other.host.value(), p_.other.device.value());
      ends_.push_back(last_on_compute_);
    }
    // The next repetition.
    const auto n = iterations_;
    wait(first_on_compute_, {{last_on_compute_, 1}});
    if (two_streams_) {
      wait(first_on_host_, {{last_on_host_, 1}});
      const std::uint32_t ahead = p_.host_waits_for_device ? 1 : 2;
      for (std::uint32_t i = 0; i < n; ++i) wait(first_of_host_[(i + ahead) % n], {{ends_[i], (i + ahead) / n}});
    }
    if (loader_ != none) {
      std::vector<std::uint32_t> loads;
      for (std::uint32_t i = 0; i < n; ++i) loads.push_back(activity(p_.input_period.value(), loader_, {}));
      for (std::uint32_t i = 0; i < n; ++i) {
        wait(takes_[i], {{loads[i], 0}});
        wait(loads[(i + 1) % n], {{loads[i], (i + 1) / n}});
        wait(loads[(i + 2) % n], {{takes_[i], (i + 2) / n}});
      }
    }
    job_.last = last_on_compute_;
  }
  std::uint32_t pass(double host, double device, bool takes_batch = false) {
    if (!two_streams_) return on_compute(host + device, {});
    const std::uint32_t issued = on_host(host);
    const std::uint32_t done = on_compute(device, {{issued, 0}});
    return takes_batch ? issued : done;
  }
  std::uint32_t on_host(double seconds) {
    const std::uint32_t a = activity(seconds, host_, {});
    if (last_on_host_ != none) wait(a, {{last_on_host_, 0}});
    else first_on_host_ = a;
    if (first_of_host_.back() == none) first_of_host_.back() = a;
    return last_on_host_ = a;
  }
  std::uint32_t on_compute(double seconds, Waits waits) {
    const std::uint32_t a = activity(seconds, compute_, std::move(waits));
    if (last_on_compute_ != none) wait(a, {{last_on_compute_, 0}});
    else first_on_compute_ = a;
    return last_on_compute_ = a;
  }

  // -- who waits: messages leave in the last iteration of a repetition, and what they bring is used in the next one

  std::uint32_t exchanging() const { return iterations_ - 1; }
  Wait gradient(std::uint32_t tensor) const { return {backward_[exchanging()][p_.tensors[tensor].layer], 0}; }
  Wait end_of_backward() const { return {backward_[exchanging()][p_.backward_order.back()], 0}; }
  void update_waits(const Waits& for_these) { wait(updates_[exchanging()], for_these); }
  void next_forward_waits(std::uint32_t layer, const Waits& for_these) { wait(forward_[0][layer], for_these, 1); }

  std::vector<double> ready() const {
    double host = 0, device = 0;
    const auto run = [&](const PassCost& c) {
      host += c.host.value();
      device = two() ? std::max(host, device) + c.device.value() : (host += c.device.value());
    };
    for (const Layer& l : p_.layers) run(l.forward);
    start_of_backward_ = device;
    std::vector<double> done(p_.layers.size());
    for (const std::uint32_t l : p_.backward_order) run(p_.layers[l].backward), done[l] = device;
    std::vector<double> out;
    for (const Tensor& t : p_.tensors) out.push_back(done[t.layer]);
    return out;
  }
  bool two() const { return p_.has_device(); }

  // -- one message, encoded if it is to be

  Code code_for(const Tensors& run, double size) const {
    Code sum{.back = 0};
    double whole = 0;
    for (const std::uint32_t t : run) sum += code_->code(p_.tensors[t]), whole += bytes(t);
    return whole > 0 ? sum * (size / whole) : Code{};
  }
  Waits encoded(const Code& code, Waits after, double part = 1) {
    if (!code_->overlapped && from_gradients_) after.push_back(end_of_backward());
    if (!(code.encode > 0) && !code_->two_exchanges) return after;
    return {{codec(code.encode * part, std::move(after)), 0}};
  }
  Waits decoded(double seconds, Waits after) {
    if (!(seconds > 0) && !code_->two_exchanges) return after;
    return {{codec(seconds, std::move(after)), 0}};
  }

  /// An all-reduce of a run of tensors, after what makes it ready; what has to be waited for.
  Waits all_reduce(const Tensors& run, double size, std::uint32_t net, double urgency, const Waits& after) {
    if (!code_) return {{message(Operation::all_reduce, size, net, urgency, after), 0}};
    const Code code = code_for(run, size);
    const double p = static_cast<double>(workers_);
    if (code_->sum == Sum::on_servers) throw NotWritten("needs servers");
    Waits start = encoded(code, after);
    Waits raw = after;
    if (!code_->overlapped && from_gradients_) raw.push_back(end_of_backward());
    if (code_->two_exchanges && job_.stations[net].order == Order::in_turn) in_order_by_encoding_ = true;
    if (in_order_by_encoding_) {
      job_.stations[net].order = Order::first_come;
      const Waits own = start;
      if (!encoded_before_.empty()) {
        start.insert(start.end(), encoded_before_.begin(), encoded_before_.end());
        raw.insert(raw.end(), encoded_before_.begin(), encoded_before_.end());
      }
      encoded_before_ = own;
    }
    switch (code_->sum) {
      case Sum::on_the_way: {
        if (!(code.first > 0)) {
          const Wait sent{message(Operation::all_reduce, code.sent + code.aside, net, urgency, start), 0};
          return decoded(code.decode, {sent});
        }
        Waits done;
        if (code.aside > 0) done = {{message(Operation::all_reduce, code.aside, net, urgency, raw), 0}};
        const Wait first{message(Operation::all_reduce, code.first, net, urgency, start), 0};
        const Wait between{codec(code.between, {first}), 0};
        const Wait second{message(Operation::all_reduce, code.sent, net, urgency, {between}), 0};
        for (const Wait& w : decoded(code.decode, {second})) done.push_back(w);
        return done;
      }
      case Sum::gathered:
        return decoded(p * code.decode, {{message(Operation::all_gather, p * code.sent, net, urgency, start), 0}});
      case Sum::scattered: {
        const Wait scattered{message(Operation::all_to_all, code.sent, net, urgency, start), 0};
        const Wait added{codec(code.decode + code.encode / p, {scattered}), 0};
        return decoded(code.decode, {{message(Operation::all_gather, code.sent, net, urgency, {added}), 0}});
      }
      case Sum::along_tree: {
        // Up the tree a partner's elements are merged with one's own; down it the result is only passed on.
        const double levels = std::ceil(std::log2(p));
        Waits at = start;
        for (double level = 0; level < levels; ++level) {
          const Wait came{message(Operation::send, code.sent, net, urgency, at), 0};
          at = {{codec(code.between, {came}), 0}};
        }
        for (double level = 0; level < levels; ++level)
          at = {{message(Operation::send, code.sent, net, urgency, at), 0}};
        return decoded(code.decode, at);
      }
      case Sum::on_servers:
        break;
    }
    return {};
  }

  /// Groups behind a barrier. `ready`: the gradient that makes a group ready.
  struct Group {
    Tensors run;
    std::uint32_t last;
  };
  static Tensors range(std::uint32_t from, std::uint32_t to) {
    Tensors run(to - from);
    std::iota(run.begin(), run.end(), from);
    return run;
  }
  double size_of_run(const Tensors& run) const {
    double sum = 0;
    for (const std::uint32_t t : run) sum += bytes(t);
    return sum;
  }
  std::vector<Group> closed_at(double first, double limit) const {
    std::vector<Group> groups;
    double open = 0;
    for (std::uint32_t t = 0, from = 0; t < tensors(); ++t) {
      open += bytes(t);
      if (open < (groups.empty() ? first : limit) && t + 1 < tensors()) continue;
      groups.push_back({range(from, t + 1), t});
      open = 0, from = t + 1;
    }
    return groups;
  }
  void barrier(const std::vector<Group>& groups, Order order, bool at_the_end = false) {
    passes(Update::once);
    const std::uint32_t net = station(order, Kind::link);
    for (std::size_t x = 0; x < groups.size(); ++x) {
      const Wait ready = at_the_end ? end_of_backward() : gradient(groups[x].last);
      update_waits(all_reduce(groups[x].run, size_of_run(groups[x].run), net, static_cast<double>(x), {ready}));
    }
  }

  // ---- strategies over all-reduces ----

  void bsp() { barrier(closed_at(value("bucket"), value("bucket")), Order::first_come, true); }
  void wfbp() { barrier(closed_at(0, 0), Order::first_come); }

  void ddp() {
    // A list of buckets for each data type, each with a first bucket of its own; sent as they close, then what is open.
    struct Bucket {
      Tensors run;
      bool closed = false;
    };
    std::vector<Bucket> buckets;
    std::map<DataType, std::size_t> open;
    std::map<DataType, int> opened;
    const double first = value("first") > 0 ? value("first") : value("bucket") == 26214400 ? 1048576 : value("bucket");
    for (std::uint32_t t = 0; t < tensors(); ++t) {
      const DataType type = p_.tensors[t].dtype;
      if (!open.contains(type)) open[type] = buckets.size(), buckets.emplace_back(), ++opened[type];
      Bucket& bucket = buckets[open[type]];
      bucket.run.push_back(t);
      if (size_of_run(bucket.run) < (opened[type] == 1 ? first : value("bucket"))) continue;
      bucket.closed = true;
      open.erase(type);
    }
    std::vector<Group> groups;
    for (std::uint32_t t = 0; t < tensors(); ++t)
      for (const Bucket& b : buckets)
        if (b.closed && b.run.back() == t) groups.push_back({b.run, t});
    for (const Bucket& b : buckets)
      if (!b.closed) groups.push_back({b.run, b.run.back()});
    barrier(groups, Order::in_turn);
  }

  void horovod() {
    const double cycle = workers_ == 1 ? 0 : value("cycle"), threshold = value("threshold");
    const std::vector<double> r = ready();
    if (value("loop") == 2) {
      // The gaps between gradients add up to the cycle, or the bytes to the threshold.
      std::vector<Group> groups;
      double open = 0, waited = 0, before = start_of_backward_;
      for (std::uint32_t t = 0, from = 0; t < tensors(); ++t) {
        waited += r[t] - before, before = r[t], open += bytes(t);
        if (open < threshold && waited < value("cycle") && t + 1 < tensors()) continue;
        groups.push_back({range(from, t + 1), t});
        open = waited = 0, from = t + 1;
      }
      barrier(groups, Order::first_come);
      return;
    }
    passes(Update::once);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    Tensors left = range(0, tensors());
    double urgency = 0, origin = phase_ * cycle, tick = origin;
    for (std::int64_t turn = 0; !left.empty();) {
      if (cycle > 0) tick = origin + cycle * static_cast<double>(turn);
      else tick = std::max(tick, r[left.front()]);
      if (r[left.front()] > tick) {
        const double away = std::ceil((r[left.front()] - origin) / cycle);
        turn = std::max(turn + 1, static_cast<std::int64_t>(away));
        continue;
      }
      Tensors taken;
      while (!left.empty() && r[left.front()] <= tick) taken.push_back(left.front()), left.erase(left.begin());
      const std::uint32_t newest = taken.back();
      Wait released = gradient(newest);
      if (tick > r[newest]) released = {timer(tick - r[newest], {released}), 0};
      double busy = 0;
      while (!taken.empty()) {
        Tensors packed, rest;
        double size = 0;
        for (const std::uint32_t t : taken) {
          const bool fits = packed.empty() ||
                            (p_.tensors[t].dtype == p_.tensors[packed.front()].dtype && size + bytes(t) <= threshold);
          (fits ? packed : rest).push_back(t);
          if (fits) size += bytes(t);
        }
        update_waits(all_reduce(packed, size, net, urgency++, {released}));
        busy += times_.seconds(Operation::all_reduce, size);
        taken = rest;
      }
      if (value("loop") == 1) origin = std::max(tick + cycle, tick + busy), tick = origin, turn = 0;
    }
  }

  void mg_wfbp() {
    const CollectiveTimes::Line given{value("a"), value("b")};
    const CollectiveTimes::Line line = given.start > 0 || given.byte > 0 ? given : times_.line();
    const std::vector<double> r = ready();
    const std::size_t n = tensors();
    std::vector<double> size(n), time(n), start(n);
    for (std::uint32_t t = 0; t < n; ++t) size[t] = bytes(t), time[t] = line(size[t]);
    const auto starts = [&] {
      for (std::size_t t = 0; t < n; ++t) start[t] = t == 0 ? r[0] : std::max(start[t - 1] + time[t - 1], r[t]);
    };
    starts();
    std::vector<Group> groups;
    for (std::uint32_t t = 0, from = 0; t < n; ++t) {
      bool merge = false;
      if (t + 1 < n) {
        const double next = r[t + 1], end = start[t] + time[t];
        if (next < end) {
          if (value("rule") == 2 && start[t] >= next) merge = line(size[t] + size[t + 1]) < time[t] + time[t + 1];
          else if (value("rule") == 2) merge = next + line(size[t] + size[t + 1]) < end + time[t + 1];
          else merge = start[t] > next || (value("rule") == 0 && next - start[t] < line.start);
        }
        merge = merge || size[t] < value("small");
      }
      if (merge) {
        size[t + 1] += size[t], time[t + 1] = line(size[t + 1]), time[t] = 0, size[t] = 0;
        starts();
      } else {
        groups.push_back({range(from, t + 1), t});
        from = t + 1;
      }
    }
    barrier(groups, Order::first_come);
  }

  void optimal_merge() {
    const std::vector<double> r = ready();
    const std::size_t n = tensors();
    std::vector<double> end(n + 1, 0);
    std::vector<std::size_t> cut(n + 1, 0);
    for (std::size_t j = 1; j <= n; ++j) {
      double size = 0, best = HUGE_VAL;
      for (std::size_t i = j; i-- > 0;) {
        size += bytes(static_cast<std::uint32_t>(i));
        const double at = std::max(r[j - 1], end[i]) + times_.seconds(Operation::all_reduce, size);
        if (at <= best) best = at, cut[j] = i;
      }
      end[j] = best;
    }
    std::vector<Group> groups;
    for (std::size_t j = n; j > 0; j = cut[j])
      groups.insert(groups.begin(), {range(static_cast<std::uint32_t>(cut[j]), static_cast<std::uint32_t>(j)),
                                     static_cast<std::uint32_t>(j - 1)});
    barrier(groups, Order::first_come);
  }

  static std::vector<double> parts(double size, double largest) {
    std::vector<double> out;
    for (; size > largest; size -= largest) out.push_back(largest);
    out.push_back(size);
    return out;
  }

  void bytescheduler() {
    const double partition = value("partition"), cycle = workers_ > 1 ? value("cycle") : 0;
    passes(Update::by_layer, workers_ > 1 ? value("host") : 0);
    const std::uint32_t net = station(Order::most_urgent, Kind::link, value("credit"));
    const std::vector<double> r = ready();
    struct Posted {
      Tensors run;
      double tick, at;
    };
    std::vector<Posted> posted;
    for (std::uint32_t t = 0; t < tensors(); ++t) {
      const double tick = cycle > 0 ? std::ceil(r[t] / cycle - phase_) : 0,
                   at = cycle > 0 ? cycle * (tick + phase_) : r[t];
      const auto fuses = [&](const Posted& p) {
        return cycle > 0 && p.tick == tick && bytes(t) <= partition && bytes(p.run.back()) <= partition &&
               size_of_run(p.run) + bytes(t) <= value("fusion") &&
               p_.tensors[p.run.front()].dtype == p_.tensors[t].dtype;
      };
      if (!posted.empty() && fuses(posted.back())) posted.back().run.push_back(t);
      else posted.push_back({{t}, tick, at});
    }
    for (const Posted& post : posted) {
      Wait released = gradient(post.run.back());
      const double wait_for = post.at - r[post.run.back()];
      if (wait_for > 0) released = {timer(wait_for, {released}), 0};
      const double size = size_of_run(post.run);
      for (const double part : parts(size, post.run.size() > 1 ? size : partition)) {
        double urgency = HUGE_VAL;
        for (const std::uint32_t t : post.run) urgency = std::min(urgency, static_cast<double>(p_.tensors[t].layer));
        const Waits done = all_reduce(post.run, part, net, urgency, {released});
        for (const std::uint32_t t : post.run) next_forward_waits(p_.tensors[t].layer, done);
      }
    }
  }

  void dear() {
    struct Modules {
      std::uint32_t first = 0, layers = 0;
      Tensors run;
    };
    std::vector<Modules> groups;
    for (std::uint32_t l = 0; l < p_.layers.size(); ++l) {
      Tensors own;
      for (std::uint32_t t = 0; t < tensors(); ++t)
        if (p_.tensors[t].layer == l) own.push_back(t);
      if (own.empty()) continue;
      const bool joins = !groups.empty() &&
                         (value("layers") > 0 ? groups.back().layers < value("layers")
                                              : size_of_run(groups.back().run) + size_of_run(own) < value("bucket"));
      if (!joins) groups.push_back({l, 0, {}});
      ++groups.back().layers;
      groups.back().run.insert(groups.back().run.end(), own.begin(), own.end());
    }
    const auto ahead = static_cast<std::size_t>(value("prefetch"));
    std::vector<bool> entered(p_.layers.size(), false);
    for (std::size_t x = ahead; x < groups.size(); ++x) entered[groups[x - ahead].first] = true;
    passes(Update::by_layer, 0, entered);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    const auto padded = [&](const Modules& g) {
      double size = size_of_run(g.run);
      if (value("padding") == 0 || workers_ == 1) return size;
      const double element = size_of(p_.tensors[*std::min_element(g.run.begin(), g.run.end(),
                                                                  [&](std::uint32_t a, std::uint32_t b) {
                                                                    return std::pair(p_.tensors[a].layer, a) <
                                                                           std::pair(p_.tensors[b].layer, b);
                                                                  })]
                                         .dtype);
      const double p = static_cast<double>(workers_);
      return size + element * (p - std::fmod(size / element, p));
    };
    if (code_ && code_->sum != Sum::on_the_way) throw NotWritten("messages that do not add up");
    Waits reduced;  // all reduce-scatters
    for (std::size_t x = 0; x < groups.size(); ++x) {
      const std::uint32_t last = *std::max_element(groups[x].run.begin(), groups[x].run.end());
      const double size = padded(groups[x]), urgency = -static_cast<double>(x);
      if (!code_) {
        reduced.push_back({message(Operation::reduce_scatter, size, net, urgency, {gradient(last)}), 0});
        continue;
      }
      const Code code = code_for(groups[x].run, size);
      Waits start = encoded(code, {gradient(last)}), raw{gradient(last)};
      if (!code_->overlapped) raw.push_back(end_of_backward());
      double sent = code.sent;
      if (code.first > 0) {
        if (code.aside > 0) reduced.push_back({message(Operation::all_reduce, code.aside, net, urgency, raw), 0});
        const Wait first{message(Operation::all_reduce, code.first, net, urgency, start), 0};
        start = {{codec(code.between, {first}), 0}};
      } else {
        sent += code.aside;
      }
      reduced.push_back({message(Operation::reduce_scatter, sent, net, urgency, start), 0});
    }
    // What one step's reduce-scatters lead to belongs to the next one.
    std::uint32_t before = none;
    for (std::size_t x = 0; x < groups.size(); ++x) {
      double size = padded(groups[x]), decode = 0;
      if (code_) {
        const Code code = code_for(groups[x].run, size);
        size = code.first > 0 ? code.sent : code.sent + code.aside, decode = code.decode;
      }
      const std::uint32_t gather = message(Operation::all_gather, size, net, static_cast<double>(x), {});
      if (x == 0) wait(gather, reduced, 1), wait(gather, {end_of_backward()}, 1);
      else wait(gather, {{before, 0}});
      if (x >= ahead) wait(gather, {{entry_[0][groups[x - ahead].first], 0}});
      wait(forward_[0][groups[x].first], code_ ? decoded(decode, {{gather, 0}}) : Waits{{gather, 0}});
      before = gather;
    }
    if (!groups.empty() && groups[0].first > 0) wait(forward_[0][0], reduced, 1);
  }

  void switchml() {
    passes(Update::by_layer);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    for (std::uint32_t t = 0; t < tensors(); ++t)
      next_forward_waits(p_.tensors[t].layer, all_reduce({t}, bytes(t), net, t, {gradient(t)}));
  }

  void lb_sgd() {
    passes(Update::once);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    if (tensors() == 0) return;
    const Waits done = all_reduce(range(0, tensors()), all_bytes(), net, 0, {end_of_backward()});
    // The update of the iteration after this one; where steps accumulate, the next update there is.
    wait(updates_[one_update_ ? exchanging() : 0], done, 1);
  }

  void overlap_local_sgd() {
    own_period("period");
    passes(Update::once);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    from_gradients_ = false;
    if (tensors() == 0) return;
    const Waits done = all_reduce(range(0, tensors()), all_bytes(), net, 0, {{updates_[exchanging()], 0}});
    wait(forward_[0][0], done, 2);
  }
  void own_period(std::string_view option_name) {
    if (iterations_ != 1) throw NotWritten("two periods");
    iterations_ = static_cast<std::uint32_t>(value(option_name));
  }

  // ---- neighbours: counted one by one ----

  struct Load {
    double messages, scale;
  };
  Load neighbours(std::int64_t degree) const {
    const std::int64_t g = c_.devices_per_node;
    degree = std::min(degree, workers_ - 1);
    if (c_.nodes == 1) return {static_cast<double>(degree), 1};
    double leaving = 0;
    for (std::int64_t from = 0; from < g; ++from)
      for (std::int64_t k = 0; k < degree; ++k) {
        const std::int64_t step = k % 2 == 0 ? k / 2 + 1 : -(k / 2 + 1);
        leaving += ((from + step) % workers_ + workers_) % workers_ / g != 0;
      }
    const Load cards{leaving / static_cast<double>(c_.nics_per_node), 1};
    double share = 1;
    for (const SlowWorkers& s : c_.stragglers.slow) share = std::min(share, s.link_share);
    const Load inside{static_cast<double>(degree),
                      c_.network.bandwidth.value() * share * times_.usable() / c_.inside.bandwidth.value()};
    return g > 1 && inside.messages * inside.scale > cards.messages ? inside : cards;
  }

  void overlay() {
    if (code_) throw NotWritten("neighbours");
    passes(Update::once);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    const Load load = neighbours(static_cast<std::int64_t>(value("degree")));
    const double flows = value("flows") > 0 ? value("flows") : load.messages * load.scale;
    if (tensors() > 0) update_waits({{message(Operation::send, flows * all_bytes(), net, 0, {end_of_backward()}), 0}});
  }

  void dc_dgd() {
    if (code_) throw NotWritten("neighbours");
    passes(Update::once);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    const Load load = neighbours(static_cast<std::int64_t>(value("degree")));
    if (tensors() == 0) return;
    for (double k = 0; k < std::max(1.0, load.messages); ++k)
      update_waits(
          {{message(Operation::send, value("share") * load.scale * all_bytes(), net, 0, {end_of_backward()}), 0}});
  }

  /// The weights of the step before go to the neighbours beside the passes; the update waits for theirs.
  void mixed_beside(double models) {
    if (!spec_.modifiers.empty()) throw NotWritten("models of which steps are left out");
    passes(Update::once);
    const std::uint32_t net = station(Order::first_come, Kind::link);
    if (tensors() == 0) return;
    update_waits({{message(Operation::send, models * all_bytes(), net, 0, {{updates_[0], 1}}), 0}});
  }
  void d_psgd() {
    const Load load = neighbours(static_cast<std::int64_t>(value("degree")));
    mixed_beside(load.messages * load.scale);
  }
  void ad_psgd() {
    const Load load = neighbours(static_cast<std::int64_t>(value("degree")));
    const double candidates = std::min(value("degree"), std::max(1.0, static_cast<double>(workers_ - 1)));
    mixed_beside(workers_ == 1 ? 0 : std::max(1.0, load.messages * load.scale / candidates));
  }

  void easgd() {
    if (!spec_.modifiers.empty()) throw NotWritten("a centre and something else");
    own_period("period");
    passes(Update::once);
    const auto held = [&](const Wait& centre) {
      wait(value("overlap") == 1 ? updates_[0] : forward_[0][0], {centre}, 1);
    };
    const Wait stepped{updates_[exchanging()], 0};
    const bool remote = c_.nodes > 1, shared = !remote || c_.servers == 0;
    const std::uint32_t down = station(Order::first_come, Kind::link);
    if (tensors() == 0) return;
    if (value("centre") == 1) {
      held({message(Operation::all_reduce, all_bytes(), down, 0, {stepped}), 0});
      return;
    }
    const std::uint32_t up = shared ? down : station(Order::first_come, Kind::link);
    const double models = all_bytes() * devices_;
    const Wait centre{message(remote ? Operation::pull : Operation::local_all_gather, models, down, 0, {stepped}), 0};
    held(centre);
    const Wait subtracted{activity(0, station(Order::first_come, Kind::host), {centre}, -1), 0};
    const Operation back = remote ? Operation::push : Operation::local_reduce_scatter;
    wait(centre.activity, {{message(back, models, up, 0, {subtracted}), 1}});
  }

  void ist() {
    own_period("period");
    passes(Update::once);
    const bool remote = c_.nodes > 1, shared = !remote || c_.servers == 0;
    const std::uint32_t up = station(Order::first_come, Kind::link),
                        down = shared ? up : station(Order::first_come, Kind::link);
    from_gradients_ = false;
    for (std::uint32_t t = 0; t < tensors(); ++t) {
      // A machine sends the networks of all its devices, each encoded by itself.
      const Wait updated{updates_[exchanging()], 0};
      double out = bytes(t), back = bytes(t), decode = 0;
      Waits start{updated};
      if (code_ && remote) {
        if (code_->two_exchanges && code_->sum == Sum::on_the_way) throw NotWritten("two exchanges over servers");
        const Code code = code_for({t}, bytes(t));
        start = encoded(code, start), out = code.sent, back = back_of(code, bytes(t)), decode = code.decode;
      }
      const Wait sent{message(remote ? Operation::push : Operation::local_reduce_scatter, out * devices_, up, t, start),
                      0};
      const Wait got{message(remote ? Operation::pull : Operation::local_all_gather, back * devices_, down, t, {sent}),
                     0};
      wait(forward_[0][0], code_ && remote ? decoded(decode, {got}) : Waits{got}, 1);
    }
  }

  // ---- parameter servers ----

  double back_of(const Code& code, double dense) const {
    if (code.back > 0) return code.back;
    return code_->sum == Sum::gathered ? std::min(dense, machines_ * code.sent) : code.sent;
  }

  struct Lines {
    Order up = Order::first_come;
    double window = 0;
    Order down = Order::first_come;
    bool balanced = false, hashed = false;
  };
  void servers(Update update, const Lines& lines) {
    passes(update);
    pcie_ = station(Order::first_come, Kind::link);
    remote_ = c_.nodes > 1;
    if (!remote_) return;
    const bool shared = c_.servers == 0;
    const bool strict = shared && lines.down == Order::in_turn;
    up_ = station(strict ? Order::in_turn : lines.up, Kind::link, lines.window);
    down_ = shared ? up_ : station(lines.down, Kind::link);
    if (c_.server_sum_rate.value() > 0) sum_ = station(Order::first_come, Kind::link);
    if (shared) return;
    const double s = static_cast<double>(c_.servers);
    double share = 1;
    for (const SlowWorkers& w : c_.stragglers.slow) share = std::min(share, w.link_share);
    // A push is timed as the slower of a worker's card and a server's; here they are stations of their own.
    const double of_card = 1 / share / std::max(1 / share, machines_ / s);
    if (lines.balanced) {
      const double used = std::min(s, machines_), whole = machines_ * machines_ + used * machines_ - 2 * used;
      own_ = (1 - (machines_ - used) / whole) * of_card;
      extra_ = (machines_ - 1) * (machines_ - used) / whole * of_card;
    }
    if (lines.hashed && s >= 2 && s <= 100) {
      own_ = of_card;
      for (std::int64_t i = 0; i < c_.servers; ++i) {
        into_.push_back(station(Order::first_come, Kind::link));
        out_of_.push_back(station(Order::first_come, Kind::link));
      }
    }
  }

  /// Gradients are copied to the host and back, which takes time.
  bool stages() const { return remote_ && c_.server_staging_rate.value() > 0; }

  struct Part {
    Tensors run;
    double size;
    double urgency;
    std::uint64_t key = 0;
  };
  /// BytePS: the DJB2 hash of the key in decimal digits.
  std::size_t server_of(std::uint64_t key) const {
    std::uint64_t hash = 5381;
    for (const char c : std::to_string(key)) hash = hash * 33 + static_cast<std::uint64_t>(c);
    return hash % into_.size();
  }

  Waits pushed(const Wait& ready, const Part& part) {
    Wait at = ready;
    const bool local = devices_ > 1 || !remote_ || own_ < 1 || stages();
    if (local) at = {message(Operation::local_reduce_scatter, part.size, pcie_, part.urgency, {at}), 0};
    if (!remote_) return {at};
    double size = part.size;
    Waits start{at};
    if (code_) {
      if (code_->two_exchanges && code_->sum == Sum::on_the_way) throw NotWritten("two exchanges over servers");
      const Code code = code_for(part.run, part.size);
      start = encoded(code, start, 1 / devices_), size = code.sent;
    }
    const Wait push{message(Operation::push, size * own_, up_, part.urgency, start), 0};
    Waits arrived{push};
    if (!into_.empty()) {
      // All machines' bytes go into that server's card while they are sent, and after those of the part before.
      Waits after = start;
      if (last_push_) after.push_back(*last_push_);
      arrived.push_back({message(Operation::server_card, size, into_[server_of(part.key)], part.urgency, after), 0});
      last_push_ = push;
    }
    if (extra_ > 0) arrived.push_back({message(Operation::push, size * extra_, down_, part.urgency, start), 0});
    if (sum_ != none) arrived = {{message(Operation::server_sum, part.size, sum_, part.urgency, arrived), 0}};
    return arrived;
  }

  Waits pulled(const Waits& summed, const Part& part, std::uint32_t back = 0) {
    Waits from = summed;
    for (Wait& w : from) w.back += back;
    const bool local = devices_ > 1 || !remote_ || own_ < 1 || stages();
    if (remote_) {
      double size = part.size, decode = 0;
      if (code_) {
        const Code code = code_for(part.run, part.size);
        size = back_of(code, part.size), decode = code.decode / devices_;
      }
      Waits got{{message(Operation::pull, size * own_, down_, part.urgency, from), 0}};
      if (!out_of_.empty())
        got.push_back({message(Operation::server_card, size, out_of_[server_of(part.key)], part.urgency, from), 0});
      if (extra_ > 0) got.push_back({message(Operation::pull, size * extra_, up_, part.urgency, from), 0});
      from = code_ ? decoded(decode, got) : got;
    }
    if (local) return {{message(Operation::local_all_gather, part.size, pcie_, part.urgency, from), 0}};
    return from;
  }
  Waits exchanged(const Wait& ready, const Part& part) { return pulled(pushed(ready, part), part); }

  void bsp_ps() {
    servers(Update::once, {.hashed = value("keys") == 0});
    std::uint64_t number = 0;
    if (tensors() == 0) return;
    for (const double size : parts(all_bytes(), value("partition"))) {
      const std::uint64_t key = (std::uint64_t{2} * tensors() << 16) + number;
      update_waits(exchanged(end_of_backward(), {range(0, tensors()), size, static_cast<double>(number), key}));
      ++number;
    }
  }
  void wfbp_ps() {
    servers(Update::once, {.hashed = value("keys") == 0});
    for (std::uint32_t t = 0; t < tensors(); ++t) {
      std::uint64_t declared = 0, number = 0;  // in alphabetical order of names
      for (std::uint32_t u = 0; u < tensors(); ++u)
        declared += std::pair(p_.tensors[u].name, u) < std::pair(p_.tensors[t].name, t);
      for (const double size : parts(bytes(t), value("partition")))
        update_waits(exchanged(gradient(t), {{t}, size, static_cast<double>(t), (declared << 16) + number++}));
    }
  }
  void byteps() {
    const double credit = value("credit");
    servers(Update::once,
            {.up = credit > 0 ? Order::most_urgent : Order::first_come, .window = credit, .balanced = true});
    for (std::uint32_t t = 0; t < tensors(); ++t)
      for (const double size : parts(bytes(t), value("partition")))
        update_waits(exchanged(gradient(t), {{t}, size, static_cast<double>(p_.tensors[t].layer)}));
  }
  void scheduled(double partition, double credit) {
    servers(Update::by_layer, {.up = Order::most_urgent, .window = credit});
    for (std::uint32_t t = 0; t < tensors(); ++t) {
      const std::uint32_t layer = p_.tensors[t].layer;
      for (const double size : parts(bytes(t), partition))
        next_forward_waits(layer, exchanged(gradient(t), {{t}, size, static_cast<double>(layer)}));
    }
  }
  void bytescheduler_ps() { scheduled(value("partition"), value("credit")); }
  void p3() { scheduled(value("slice"), value("slice")); }

  void tictac() {
    servers(Update::by_layer, {.down = Order::in_turn});
    Waits summed;
    for (std::uint32_t t = 0; t < tensors(); ++t)
      for (const Wait& w : pushed(gradient(t), {{t}, bytes(t), static_cast<double>(tensors() + t)}))
        summed.push_back(w);
    const Wait all{timer(0, summed), 0};
    double rank = 0;
    for (std::uint32_t l = 0; l < p_.layers.size(); ++l)
      for (std::uint32_t t = 0; t < tensors(); ++t)
        if (p_.tensors[t].layer == l) wait(forward_[0][l], pulled({all}, {{t}, bytes(t), rank++}, 1));
    if (tensors() > 0) next_forward_waits(0, {all});
  }

  // ---- MXNet's keys ----

  struct Keys {
    bool local_update = false, pulls_last = false, updated_by_servers = false;
    std::uint32_t late = 0;  // steps by which what was pulled may be missing
    enum { dense, two_bits, corrected } push = dense;
  };
  void keyed(const Keys& k) {
    if (code_) throw NotWritten("compressed keys");
    if (k.local_update && iterations_ > 1 && spec_.modifiers.size() > 0) throw NotWritten("two periods");
    if (k.updated_by_servers && !spec_.modifiers.empty()) throw NotWritten("steps that are left out");
    passes(k.local_update || k.updated_by_servers || k.push != Keys::dense ? Update::elsewhere : Update::by_layer);
    remote_ = c_.nodes > 1;
    const bool several = devices_ > 1 || !remote_ || stages();
    pcie_ = station(Order::first_come, Kind::link);
    if (remote_) {
      const Order order = k.late > 0 ? Order::first_come : Order::most_urgent;  // no pass waits for one of them
      up_ = station(order, Kind::link);
      down_ = c_.servers == 0 ? up_ : station(order, Kind::link);
      if (c_.server_sum_rate.value() > 0) sum_ = station(Order::first_come, Kind::link);
    }
    const std::uint32_t processor = station(Order::first_come, Kind::host);
    const double memory = k.local_update || k.push != Keys::dense ? value("memory") : 1;
    const std::uint32_t steps = periodic_by_modifier() ? 1 : iterations_;
    for (std::uint32_t t = 0; t < tensors(); ++t) {
      const std::uint32_t layer = p_.tensors[t].layer;
      const double m = bytes(t), small = 4 * std::ceil(m / size_of(p_.tensors[t].dtype) / 16);
      Wait buffer_free{none, 0};
      std::vector<std::uint32_t> first_users;
      for (std::uint32_t i = 0; i < steps; ++i) {
        const std::uint32_t iteration = periodic_by_modifier() ? exchanging() : i;
        Waits copied{{backward_[iteration][layer], 0}};
        if (k.local_update && buffer_free.activity != none) copied.push_back(buffer_free);
        std::vector<std::uint32_t> users;
        // With one device the copy takes no time, but stays a step where a push frees the buffer.
        if (several || (k.pulls_last && steps > 1)) {
          const std::uint32_t copy = message(Operation::local_reduce_scatter, m, pcie_, layer, copied);
          users.push_back(copy);
          copied = {{copy, 0}};
        }
        const bool few = remote_ && (k.push == Keys::two_bits || (k.push == Keys::corrected && i > 0));
        const bool buffered = !users.empty();
        Waits ready = copied;
        if (k.local_update) {
          const std::uint32_t update = activity(value("passes") * m / memory, processor, copied, -1);
          if (!buffered) users.push_back(update);
          const Wait updated =
              several ? Wait{message(Operation::local_all_gather, m, pcie_, layer, {{update, 0}}), 0} : Wait{update, 0};
          const std::uint32_t next = i + 1;
          wait(forward_[next % steps][layer], {updated}, next / steps);
          if (few) ready = {{activity((3 * m + small) / memory, processor, {{update, 0}}, -1), 0}};
        } else if (few) {
          ready = {{activity((3 * m + small) / memory, processor, copied, -1), 0}};
        }
        const auto result = [&](const Waits& w) {
          if (!k.local_update) wait(forward_[0][layer], w, 1 + k.late);
        };
        if (!remote_) {
          if (!k.local_update) result({{message(Operation::local_all_gather, m, pcie_, layer, ready), 0}});
          buffer_free = {none, 0};
          if (i == 0) first_users = users;
          continue;
        }
        std::uint32_t at = message(Operation::push, few ? small : m, up_, layer, ready);
        if (!few && !buffered) users.push_back(at);
        if (sum_ != none) at = message(Operation::server_sum, m, sum_, layer, {{at, 0}});
        if (!k.pulls_last || i + 1 == steps) at = message(Operation::pull, m, down_, layer, {{at, 0}});
        buffer_free = {at, 0};
        if (i == 0) first_users = users;
        if (k.local_update) continue;
        if (several) at = message(Operation::local_all_gather, m, pcie_, layer, {{at, 0}});
        result({{at, 0}});
      }
      if (k.local_update && buffer_free.activity != none)
        for (const std::uint32_t user : first_users) wait(user, {buffer_free}, 1);
    }
  }
  bool periodic_by_modifier() const {
    for (const ModifierSpec& m : spec_.modifiers)
      if (m.modifier->name == "local" || m.modifier->name == "accumulate" || m.modifier->name == "zero_one_adam")
        return true;
    return false;
  }

  // Messages of four steps under way keep the busiest of all stations busy.
  void asgd() { keyed({.updated_by_servers = true, .late = value("fetch") == 0 ? 3u : 0u}); }
  void ssp() {
    keyed({.updated_by_servers = true, .late = std::min(3u, static_cast<std::uint32_t>(value("staleness")))});
  }
  void dist_sync() { keyed({}); }
  void od_sgd() { keyed({.local_update = true}); }
  void ssd_sgd() {
    own_period("period");
    keyed({.local_update = true, .pulls_last = true});
  }
  void cd_sgd() {
    own_period("period");
    keyed({.local_update = true, .push = Keys::corrected});
  }
  void bit_sgd() { keyed({.push = Keys::two_bits}); }

  static constexpr std::uint32_t none = 0xffffffffu;
  const Profile& p_;
  const Cluster& c_;
  const PlanSpec& spec_;
  const double phase_;
  const std::string name_;
  const CollectiveTimes times_;
  const std::int64_t workers_;
  const double machines_, devices_;
  std::optional<Compressor> code_;
  std::uint32_t iterations_ = 1;
  bool one_update_ = false, two_streams_ = false, from_gradients_ = true, in_order_by_encoding_ = false;
  Update update_ = Update::once;
  Job job_;
  std::uint32_t host_ = none, compute_ = none, loader_ = none, clock_ = none, pcie_ = none, up_ = none, down_ = none,
                sum_ = none;
  std::uint32_t first_on_host_ = none, last_on_host_ = none, first_on_compute_ = none, last_on_compute_ = none;
  std::vector<std::uint32_t> first_of_host_, takes_, ends_, updates_, into_, out_of_;
  std::vector<std::vector<std::uint32_t>> forward_, forward_end_, backward_, entry_;
  mutable double start_of_backward_ = 0;
  Waits encoded_before_;
  bool remote_ = false;
  double own_ = 1, extra_ = 0;
  std::optional<Wait> last_push_;
};

}  // namespace

std::optional<Job> job_by_rules(const AskedRules& asked) {
  try {
    return Worker(asked).job();
  } catch (const NotWritten&) { return std::nullopt; }
}

Job job_of_plan(const AskedRules& asked, const CommPlan& plan) { return Worker(asked, false).job(plan); }

}  // namespace stepcast::test
