// Groups are closed when they reach their limit.
#include <stepcast/strategies/shared/grouping.hpp>

#include <limits>

namespace stepcast {
namespace {

/// Appends tensors to the last group, or to a new one after `close`.
class GroupWriter {
 public:
  GroupWriter(const Profile& profile, Memory memory) : tensors_(profile.tensors), groups_(memory) {
    groups_.reserve(tensors_.size());
  }
  const Group& append(std::uint32_t tensor) {
    if (!open_) groups_.push_back({tensor, 0, Bytes(0)});
    open_ = true;
    ++groups_.back().count;
    groups_.back().size += tensors_[tensor].size;
    return groups_.back();
  }
  void close() { open_ = false; }
  Grouping take() { return std::move(groups_); }

 private:
  const std::vector<Tensor>& tensors_;
  Grouping groups_;
  bool open_ = false;
};

}  // namespace

Grouping per_tensor(const Profile& profile, Memory memory) { return closed_at(profile, Bytes(0), memory); }

Grouping all_in_one(const Profile& profile, Memory memory) {
  return closed_at(profile, Bytes(std::numeric_limits<double>::infinity()), memory);
}

Grouping closed_at(const Profile& profile, Bytes limit, Memory memory) {
  return closed_at(profile, limit, limit, memory);
}

Grouping closed_at(const Profile& profile, Bytes first_limit, Bytes limit, Memory memory) {
  GroupWriter writer(profile, memory);
  for (std::uint32_t t = 0; t < profile.tensors.size(); ++t) {
    const Group& group = writer.append(t);
    if (group.size >= (group.first == 0 ? first_limit : limit)) writer.close();
  }
  return writer.take();
}

Grouping closed_at(const Profile& profile, Bytes limit, Seconds wait, std::span<const Seconds> ready, Seconds begin,
                   Memory memory) {
  GroupWriter writer(profile, memory);
  Seconds waited, previous = begin;
  for (std::uint32_t t = 0; t < profile.tensors.size(); ++t) {
    waited += ready[t] - previous;
    previous = ready[t];
    if (writer.append(t).size < limit && waited < wait) continue;
    writer.close();
    waited = Seconds(0);
  }
  return writer.take();
}

}  // namespace stepcast
