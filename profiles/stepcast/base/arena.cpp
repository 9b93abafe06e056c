// A block that is full is followed by one twice as large; `reset` keeps the largest.
#include <stepcast/base/arena.hpp>

#include <algorithm>

namespace stepcast {

void* Arena::do_allocate(std::size_t bytes, std::size_t alignment) {
  // Blocks begin at addresses that suit every type.
  std::size_t at = (used_ + alignment - 1) / alignment * alignment;
  if (blocks_.empty() || at + bytes > blocks_.back().size) {
    constexpr std::size_t least = 4096;
    const std::size_t size = std::max({least, bytes, blocks_.empty() ? 0 : 2 * blocks_.back().size});
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
    at = 0;
  }
  used_ = at + bytes;
  return blocks_.back().bytes.get() + at;
}

void Arena::reset() {
  if (blocks_.size() > 1) blocks_.erase(blocks_.begin(), blocks_.end() - 1);
  used_ = 0;
}

}  // namespace stepcast
