#pragma once
// Arena: memory that is handed out piece by piece and taken back all at once. After a few rounds it is one block.
//
// Example: `std::pmr::vector<int> list(&arena)` lives until `arena.reset()`. Not modelled: pieces that go back alone.
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <vector>

namespace stepcast {

class Arena final : public std::pmr::memory_resource {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  /// Takes back all that was handed out.
  void reset();

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;  // the last one is in use
  std::size_t used_ = 0;       // of the last one
};

}  // namespace stepcast
