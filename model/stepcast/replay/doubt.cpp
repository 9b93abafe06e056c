// Doubt: counts the halves of pairs whose other half is missing.
#include <stepcast/base/words.hpp>
#include <stepcast/replay/doubt.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stepcast::replaying {
namespace {

/// A larger share of lost halves is damage.
constexpr double largest_lost_share = 0.05;
/// Fewer pairs prove nothing.
constexpr std::int64_t fewest_pairs = 20;

struct Share {
  std::int64_t lost = 0, all = 0;
  void count(bool is_lost) { ++all, lost += is_lost; }
  [[nodiscard]] double value() const {
    return all < fewest_pairs ? 0 : static_cast<double>(lost) / static_cast<double>(all);
  }
};

/// The undistorted steps, or all: nothing outside is judged.
struct Window {
  explicit Window(std::span<const Step> steps) {
    for (const Step& step : steps) {
      if (step.distorted && steps.size() > 2) continue;
      from = std::min(from, step.start_ns);
      to = std::max(to, step.end_ns);
    }
  }
  [[nodiscard]] bool holds(std::int64_t time) const { return time >= from && time < to; }
  std::int64_t from = INT64_MAX, to = INT64_MIN;
};

/// Copies and fills of no bytes leave no device work in an intact recording (every cublasGemm fills a workspace of
/// none), launches of kernels always do.
bool launches_a_kernel(std::string_view call) { return call.find("LaunchKernel") != std::string_view::npos; }

/// Work that was queued before the recording began has no launch in it: only what follows work with a launch counts.
bool follows_launched_work(const TraceLinks& links, std::uint32_t work) {
  const std::vector<std::uint32_t>& stream = links.streams[links.event(work).track];
  const auto end = stream.begin() + links.position[work];
  return std::find_if(stream.begin(), end, [&](std::uint32_t e) { return links.launch_of[e] != no_index; }) != end;
}

/// Lower-case letters and digits alone.
std::string letters_of(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) out += lower_case(c);
  return out;
}

struct Sequence {
  bool forward = false;
  std::string backward;  ///< name of its backward node; empty: none
};

/// "SplitWithSizesBackward0" -> "splitwithsizes", "autograd::engine::evaluate_function: ViewBackward0" -> "view".
std::string operation_of_backward(std::string_view node) {
  if (const std::size_t space = node.rfind(' '); space != std::string_view::npos) node.remove_prefix(space + 1);
  return letters_of(node.substr(0, node.rfind("Backward")));
}

/// Backward nodes whose operator is recorded, but without a number: what a tensor subclass dispatches (functional
/// collectives, for one) has none. Per operation as many nodes as there are such operators are not lost.
class UnnumberedForward {
 public:
  void add_operator(std::uint32_t track, std::string_view name) {
    const std::size_t colon = name.rfind(':');
    ++seen_[track][letters_of(colon == std::string_view::npos ? name : name.substr(colon + 1))];
  }
  void add_forward_track(std::uint32_t track) { forward_.insert(track); }
  /// Whether one is left for this node, which takes it.
  bool take(const std::string& operation) {
    for (const std::uint32_t track : forward_)
      if (auto& left = seen_[track][operation]; left > 0) return --left, true;
    return false;
  }

 private:
  std::unordered_map<std::uint32_t, std::unordered_map<std::string, std::int64_t>> seen_;
  std::set<std::uint32_t> forward_;
};

}  // namespace

LostHalves lost_halves(const TraceLinks& links, std::span<const Step> steps) {
  const Window window(steps);
  Share launches, work, backward;
  const auto [first, end] = links.events_within(window.from, window.to);
  std::map<std::int64_t, Sequence> sequences;
  UnnumberedForward unnumbered;
  for (std::uint32_t e = first; e < end; ++e) {
    const Event& event = links.event(e);
    if (event.kind == EventKind::runtime_call && event.correlation > 0 &&
        launches_a_kernel(links.trace.text(event.name)))
      launches.count(links.first_of_launch[e] == no_index);
    if (is_device_work(event.kind) && event.correlation > 0 && follows_launched_work(links, e))
      work.count(links.launch_of[e] == no_index);
    if (event.kind != EventKind::host_op) continue;
    const std::string_view name = links.trace.text(event.name);
    if (event.sequence < 0) {
      unnumbered.add_operator(event.track, name);
    } else if (event.forward_thread > 0) {
      sequences[event.sequence].backward = name;
    } else {
      sequences[event.sequence].forward = true;
      unnumbered.add_forward_track(event.track);
    }
  }
  for (const auto& [number, sequence] : sequences)
    if (!sequence.backward.empty())
      backward.count(!sequence.forward && !unnumbered.take(operation_of_backward(sequence.backward)));
  return {launches.value(), work.value(), backward.value()};
}

std::string doubt_about(const TraceLinks& links, std::span<const Step> steps) {
  const LostHalves lost = lost_halves(links, steps);
  std::string doubt;
  const auto say = [&](double share, std::string_view what) {
    if (share <= largest_lost_share) return;
    doubt += (doubt.empty() ? "the recording lost events: " : ", ") + percent(share) + " of " + std::string(what);
  };
  say(lost.launches_without_work, "the launches without device work");
  say(lost.work_without_launch, "the device work without its launch");
  say(lost.backward_without_forward, "the backward nodes without their forward operator");
  return doubt;
}

}  // namespace stepcast::replaying
