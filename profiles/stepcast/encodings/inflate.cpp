// Streaming inflate on ISA-L: gzip members one after the other, straight into the caller's buffer.
#include <stepcast/encodings/inflate.hpp>

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace stepcast {

struct PlainText::Inflater {
  inflate_state state;
};

bool PlainText::is_gzip(std::span<const std::byte> stored) {
  return stored.size() >= 2 && stored[0] == std::byte{0x1f} && stored[1] == std::byte{0x8b};
}

PlainText::PlainText(std::span<const std::byte> stored, std::function<void(std::size_t)> release)
    : stored_(stored), release_(std::move(release)) {
  if (!is_gzip(stored)) return;
  inflater_ = std::make_unique<Inflater>();
  isal_inflate_init(&inflater_->state);
  inflater_->state.crc_flag = ISAL_GZIP;
  inflater_->state.avail_in = 0;
}

PlainText::~PlainText() = default;

double PlainText::share_read() const {
  return stored_.empty() ? 1 : static_cast<double>(used_) / static_cast<double>(stored_.size());
}

std::optional<std::string_view> PlainText::as_stored() const {
  if (inflater_) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(stored_.data()), stored_.size());
}

void PlainText::used(std::size_t count) {
  constexpr std::size_t step = std::size_t{1} << 23;
  used_ = count;
  if (!release_ || count < released_ + step) return;
  released_ = count;
  release_(count);
}

std::size_t PlainText::read(std::span<char> out) {
  if (!inflater_) {
    const std::size_t count = std::min(out.size(), stored_.size() - used_);
    if (count) std::memcpy(out.data(), stored_.data() + used_, count);
    used(used_ + count);
    return count;
  }
  std::size_t written = 0;
  while (written < out.size() && !ended_) written += inflate(out.subspan(written));
  return written;
}

std::size_t PlainText::inflate(std::span<char> out) {
  constexpr std::size_t largest_piece = 1u << 20;  // ISA-L counts in 32 bits
  inflate_state& state = inflater_->state;
  const std::size_t given = std::min(largest_piece, stored_.size() - used_);
  const std::size_t room = std::min(largest_piece, out.size());
  // ISA-L never writes to its input; its interface is only not const.
  state.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(stored_.data() + used_));
  state.avail_in = static_cast<std::uint32_t>(given);
  state.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  state.avail_out = static_cast<std::uint32_t>(room);
  const int result = isal_inflate(&state);
  const std::size_t written = room - state.avail_out;
  const std::size_t taken = given - state.avail_in;
  used(used_ + taken);
  if (result != ISAL_DECOMP_OK) {
    ended_ = true;
    damage_ = result == ISAL_INCORRECT_CHECKSUM ? "the gzip checksum does not match" : "the gzip stream is corrupt";
  } else if (state.block_state == ISAL_BLOCK_FINISH) {
    next_member();
  } else if (written == 0 && taken == 0) {
    ended_ = true;
    damage_ = "the gzip stream ends early";
  }
  return written;
}

void PlainText::next_member() {
  const auto rest = stored_.subspan(used_);
  if (is_gzip(rest)) {
    isal_inflate_reset(&inflater_->state);
    inflater_->state.crc_flag = ISAL_GZIP;
    return;
  }
  ended_ = true;
  const bool padding = std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!padding) damage_ = "the gzip stream is followed by bytes that are not gzip";
}

}  // namespace stepcast
