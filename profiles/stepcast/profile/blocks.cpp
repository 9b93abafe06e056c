// Profile blocks: layers become letters (equal letters: equal parameter shapes and, but for numbers, equal names), and
// the repeated part is the stretch of letters that repeats with some period and holds the most time.
#include <stepcast/profile/blocks.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// A transformer block has a dozen layers, a compiled one more; longer periods are no blocks that anybody splits at.
constexpr std::size_t longest_period = 1024;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "encoder.layer.11.output" -> "encoder.layer.#.output".
std::string without_numbers(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (!is_digit(c)) out += c;
    else if (out.empty() || out.back() != '#') out += '#';
  }
  return out;
}

std::vector<std::uint32_t> letters_of(const Profile& p) {
  std::vector<std::vector<std::string>> parameters(p.layers.size());
  for (const Tensor& t : p.tensors) {
    std::string text(name_of(t.dtype));
    for (const std::int64_t extent : t.shape) text += ' ' + std::to_string(extent);
    if (t.shape.empty()) text += " of " + std::to_string(t.size.value());
    parameters[t.layer].push_back(std::move(text));
  }
  std::map<std::pair<std::string, std::vector<std::string>>, std::uint32_t> known;
  std::vector<std::uint32_t> letters;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    std::sort(parameters[l].begin(), parameters[l].end());  // the order of readiness within a layer is an accident
    auto key = std::pair(without_numbers(p.layers[l].name), std::move(parameters[l]));
    letters.push_back(known.emplace(std::move(key), std::uint32_t(known.size())).first->second);
  }
  return letters;
}

/// "encoder.layer.11.output" -> "11": the first part of a module path that is a number; empty for other names.
std::string_view module_number(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.size() < name.size() && !part.empty() && std::all_of(part.begin(), part.end(), is_digit)) return part;
    begin = end + 1;
  }
  return {};
}

/// Where letters repeat with one period: `length` of them beyond the first block.
struct Stretch {
  std::size_t begin = 0, length = 0, period = 0;
  double time = -1;  ///< of the whole repetitions, at the best offset
  std::size_t offset = 0;
  [[nodiscard]] std::size_t repetitions() const { return (length + period) / period; }
};

class Search {
 public:
  explicit Search(const Profile& p) : letters_(letters_of(p)), until_(p.layers.size() + 1, 0) {
    for (std::size_t l = 0; l < p.layers.size(); ++l) {
      const Layer& layer = p.layers[l];
      const Seconds device = layer.forward.device + layer.backward.device;
      const Seconds host = layer.forward.host + layer.backward.host;
      until_[l + 1] = until_[l] + (p.has_device() ? std::max(device, host) : host).value();
    }
    agreements_.assign(p.layers.size() + 1, 0);
    for (std::size_t l = 0; l + 1 < p.layers.size(); ++l) {
      const std::string_view number = module_number(p.layers[l].name);
      const bool agree = !number.empty() && number == module_number(p.layers[l + 1].name);
      agreements_[l + 1] = agreements_[l] + (agree ? 1 : 0);
    }
    if (!p.layers.empty()) agreements_.back() = agreements_[p.layers.size() - 1];
  }

  Stretch best() const {
    Stretch best;
    const std::size_t n = letters_.size();
    for (std::size_t period = 1; period <= std::min(n / 2, longest_period); ++period) {
      std::size_t run = 0;
      for (std::size_t l = 0; l + period < n; ++l) {
        run = letters_[l] == letters_[l + period] ? run + 1 : 0;
        const bool ends = l + period + 1 == n || letters_[l + 1] != letters_[l + 1 + period];
        if (!ends || run < period) continue;
        consider({l + 1 - run, run, period, -1, 0}, best);
      }
    }
    return best;
  }

 private:
  /// Where the last block is cut short, blocks may begin at any of several layers: at the one that keeps most layers
  /// of a module together where names say so, else at the first one.
  void consider(Stretch stretch, Stretch& best) const {
    const std::size_t blocks = stretch.repetitions();
    const std::size_t spare = stretch.length + stretch.period - blocks * stretch.period;
    std::uint32_t most = 0;
    for (std::size_t offset = 0; offset <= spare; ++offset) {
      const std::size_t begin = stretch.begin + offset;
      std::uint32_t together = 0;
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::size_t first = begin + b * stretch.period;
        together += agreements_[first + stretch.period - 1] - agreements_[first];
      }
      if (offset > 0 && together <= most) continue;
      most = together;
      stretch.offset = offset;
    }
    const std::size_t begin = stretch.begin + stretch.offset;
    stretch.time = until_[begin + blocks * stretch.period] - until_[begin];
    // Shorter periods come first, and win unless a longer one covers more than rounding: otherwise two blocks were one.
    if (stretch.time > best.time * (1 + 1e-9) || best.period == 0) best = stretch;
  }

  std::vector<std::uint32_t> letters_;
  std::vector<double> until_;              ///< time of the layers before each
  std::vector<std::uint32_t> agreements_;  ///< neighbours of one module, among the layers before each
};

bool within(std::uint32_t layer, std::uint32_t begin, std::uint32_t end) { return layer >= begin && layer < end; }

/// Names for further layers and tensors: the number of the module, else the last number, counted on until nobody has
/// the name, so that the copies are recognised as the same block.
class Names {
 public:
  template <class Named>
  explicit Names(const std::vector<Named>& named) {
    for (const Named& one : named) used_.insert(one.name);
  }
  /// True when the name was free; it is no more.
  bool take(const std::string& name) { return used_.insert(name).second; }
  std::string after(const std::string& name) {
    const auto [begin, end] = number_in(name);
    const std::string before = name.substr(0, begin), rest = name.substr(end);
    std::string& number = last_[before + '#' + rest];
    if (number.empty()) number = name.substr(begin, end - begin);
    std::string next;
    do {
      increment(number);
      next = before + number + rest;
    } while (!used_.insert(next).second);
    return next;
  }

 private:
  static std::pair<std::size_t, std::size_t> number_in(std::string_view name) {
    if (const std::string_view module = module_number(name); !module.empty()) {
      const auto begin = std::size_t(module.data() - name.data());
      return {begin, begin + module.size()};
    }
    std::size_t end = name.size();
    while (end > 0 && !is_digit(name[end - 1])) --end;
    if (end == 0) return {name.size(), name.size()};
    std::size_t begin = end;
    while (begin > 0 && is_digit(name[begin - 1])) --begin;
    return {begin, end};
  }
  static void increment(std::string& decimal) {
    std::size_t at = decimal.size();
    while (at > 0 && decimal[at - 1] == '9') decimal[--at] = '0';
    if (at == 0) decimal.insert(0, 1, '1');
    else ++decimal[at - 1];
  }

  std::set<std::string> used_;
  std::map<std::string, std::string> last_;
};

/// Edits a profile so that the last block, layers [first, end), occurs `copies` more times.
class Deeper {
 public:
  Deeper(const Profile& p, std::uint32_t first, std::uint32_t end, std::uint32_t copies)
      : p_(p), first_(first), end_(end), copies_(copies), tensor_names_(p.tensors) {
    Names names(p.layers);
    for (std::uint32_t c = 0; c < copies; ++c)
      for (std::uint32_t l = first; l < end; ++l) {
        added_.push_back(p.layers[l]);
        added_.back().name = names.after(p.layers[l].name);
      }
  }

  Profile result() {
    Profile out = p_;
    out.layers.insert(out.layers.begin() + end_, added_.begin(), added_.end());
    out.backward_order.clear();
    bool placed = false;
    for (const std::uint32_t l : p_.backward_order) {
      if (within(l, first_, end_) && !placed) {
        for (std::uint32_t c = copies_; c > 0; --c) append_block(out.backward_order, c);
        placed = true;
      }
      out.backward_order.push_back(moved(l));
    }
    add_tensors(out);
    return out;
  }

 private:
  std::uint32_t size() const { return end_ - first_; }
  std::uint32_t moved(std::uint32_t layer) const { return layer < end_ ? layer : layer + copies_ * size(); }
  void append_block(std::vector<std::uint32_t>& order, std::uint32_t copy) const {
    for (const std::uint32_t l : p_.backward_order)
      if (within(l, first_, end_)) order.push_back(l + copy * size());
  }
  /// A parameter that is named after its layer keeps to it.
  std::string tensor_name(const Tensor& t, std::uint32_t layer) {
    const std::string& owner = p_.layers[t.layer].name;
    if (t.name.starts_with(owner)) {
      std::string name = added_[layer - end_].name + t.name.substr(owner.size());
      if (tensor_names_.take(name)) return name;
    }
    return tensor_names_.after(t.name);
  }
  void add_tensors(Profile& out) {
    std::vector<Tensor> all;
    for (const Tensor& t : p_.tensors) {
      all.push_back(t);
      all.back().layer = moved(t.layer);
      if (!within(t.layer, first_, end_)) continue;
      for (std::uint32_t c = 1; c <= copies_; ++c) {
        all.push_back(t);
        all.back().layer = t.layer + c * size();
        all.back().name = tensor_name(t, all.back().layer);
      }
    }
    std::vector<std::uint32_t> position(out.layers.size());
    for (std::uint32_t i = 0; i < out.backward_order.size(); ++i) position[out.backward_order[i]] = i;
    std::stable_sort(all.begin(), all.end(),
                     [&](const Tensor& a, const Tensor& b) { return position[a.layer] < position[b.layer]; });
    out.tensors = std::move(all);
  }

  const Profile& p_;
  std::uint32_t first_, end_, copies_;
  std::vector<Layer> added_;
  Names tensor_names_;
};

Profile shallower(const Profile& p, std::uint32_t first, std::uint32_t end) {
  const auto moved = [&](std::uint32_t l) { return l < first ? l : l - (end - first); };
  Profile out = p;
  out.layers.erase(out.layers.begin() + first, out.layers.begin() + end);
  out.backward_order.clear();
  out.tensors.clear();
  for (const std::uint32_t l : p.backward_order)
    if (!within(l, first, end)) out.backward_order.push_back(moved(l));
  for (const Tensor& t : p.tensors)
    if (!within(t.layer, first, end)) {
      out.tensors.push_back(t);
      out.tensors.back().layer = moved(t.layer);
    }
  return out;
}

}  // namespace

ProfileBlocks blocks_of(const Profile& p) {
  const Stretch found = Search(p).best();
  if (found.period == 0) return {0, std::uint32_t(p.layers.size()), 1, 0};
  const std::size_t before = found.begin + found.offset, blocks = found.repetitions();
  const std::size_t after = p.layers.size() - before - blocks * found.period;
  return {std::uint32_t(before), std::uint32_t(found.period), std::uint32_t(blocks), std::uint32_t(after)};
}

Answer<Profile> with_blocks(const Profile& p, std::uint32_t repetitions) {
  constexpr std::uint32_t most_layers = 1u << 20;
  const ProfileBlocks blocks = blocks_of(p);
  if (blocks.repetitions < 2) return Inapplicable{"nothing in " + p.model + " repeats, so it has no depth to change"};
  if (repetitions < 1) return Inapplicable{"a model needs at least one block"};
  if (repetitions == blocks.repetitions) return p;
  if (repetitions > most_layers / blocks.layers)
    return Inapplicable{"a depth of " + std::to_string(repetitions) + " is more than can be modelled"};
  const std::uint32_t end = blocks.before + blocks.repetitions * blocks.layers;
  Profile out = repetitions > blocks.repetitions
                    ? Deeper(p, end - blocks.layers, end, repetitions - blocks.repetitions).result()
                    : shallower(p, blocks.before + repetitions * blocks.layers, end);
  if (p.gradient_size().value() > 0) out.optimizer = p.optimizer * (out.gradient_size() / p.gradient_size());
  out.step_times.clear();
  out.collectives.clear();
  out.activation_memory = Bytes();
  const bool kept_known =
      std::any_of(p.layers.begin(), p.layers.end(), [](const Layer& l) { return l.kept > Bytes(); });
  if (kept_known)
    for (const Layer& layer : out.layers) out.activation_memory += layer.kept;
  out.assumed.push_back("a depth of " + std::to_string(repetitions) + " blocks in place of " +
                        std::to_string(blocks.repetitions) +
                        ": further ones are like the last one, and the update grows with the parameters");
  return out;
}

}  // namespace stepcast
