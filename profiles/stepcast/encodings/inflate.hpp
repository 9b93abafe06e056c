#pragma once
// PlainText: the bytes of a source as plain text, whether it is stored plain or as gzip, a piece at a time.
//
// A gzip file may hold several members; their texts follow one another. A gzip stream that ends early or breaks is a
// text that ends early: `damage` says so, and nothing that was read before is lost. Not modelled: other compressions.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stepcast {

class PlainText {
 public:
  /// `release` is told now and then how many of the stored bytes are needed no more; may be empty.
  explicit PlainText(std::span<const std::byte> stored, std::function<void(std::size_t)> release = {});
  ~PlainText();
  PlainText(const PlainText&) = delete;
  PlainText& operator=(const PlainText&) = delete;

  /// Writes the next bytes to `out` and returns how many; fewer than asked for only at the end.
  std::size_t read(std::span<char> out);
  /// The text as it is stored, all at once; nothing where it has to be inflated.
  [[nodiscard]] std::optional<std::string_view> as_stored() const;
  /// Says that the first `count` stored bytes were used; they may still be read again.
  void used(std::size_t count);
  /// Empty, or why the text ended before the stream said that it was complete.
  [[nodiscard]] const std::string& damage() const { return damage_; }
  /// Stored bytes used so far, 0..1.
  [[nodiscard]] double share_read() const;
  /// True when the stored bytes begin like gzip.
  [[nodiscard]] static bool is_gzip(std::span<const std::byte> stored);

 private:
  struct Inflater;
  std::size_t inflate(std::span<char> out);
  void next_member();

  std::span<const std::byte> stored_;
  std::function<void(std::size_t)> release_;
  std::size_t used_ = 0, released_ = 0;
  std::unique_ptr<Inflater> inflater_;  ///< null for plain sources
  bool ended_ = false;
  std::string damage_;
};

}  // namespace stepcast
