// The hot loop of the reader: simdjson on demand over one window of events, dispatch on the raw text of the keys.
//
// On demand validates only what it walks over. That is enough here: structure is checked as far as the walk depends on
// it, numbers are checked when they are converted, and what is skipped is not used.
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/encodings/string_table.hpp>
#include <stepcast/formats/kineto/kineto_event.hpp>

#include <simdjson.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

namespace od = simdjson::ondemand;
using Text = KinetoFields::Text;

// A key as a template argument, so that it is compared as whole words that the compiler knows.
template <std::size_t N>
struct Key {
  static constexpr std::size_t size = N;  // as in the file: the closing quote takes the place of the final '\0'
  char text[N + 8] = {}, bits[N + 8] = {};
  consteval Key(const char (&name)[N]) {
    for (std::size_t i = 0; i < N; ++i) {
      text[i] = i + 1 < N ? name[i] : '"';
      bits[i] = '\xff';
    }
  }
  [[nodiscard]] static constexpr std::uint64_t word(const char* from) {
    std::array<char, 8> bytes{};
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = from[i];
    return std::bit_cast<std::uint64_t>(bytes);
  }
};

// True when the key at `raw`, behind its opening quote, is `key`. The padding behind a window allows whole words; the
// calls to memcmp that this saves showed in profiles.
template <Key key>
[[gnu::always_inline]] inline bool is_key(const char* raw) {
  constexpr std::size_t size = key.size;
  if constexpr (size < 8) {
    constexpr std::uint64_t text = key.word(key.text), bits = key.word(key.bits);
    return (word_at(raw) & bits) == text;
  } else {
    constexpr std::uint64_t first = key.word(key.text), last = key.word(key.text + size - 8);
    if (word_at(raw) != first || word_at(raw + size - 8) != last) return false;
    return [raw]<std::size_t... i>(std::index_sequence<i...>) {
      return ((word_at(raw + 8 * (i + 1)) == key.word(key.text + 8 * (i + 1))) && ...);
    }
    (std::make_index_sequence < size <= 16 ? 0 : (size - 9) / 8 > ());
  }
}

using Rare = KinetoEvent::Rare;

// The same for what an entry says of a collective, of a synchronisation or of an allocation.
[[gnu::noinline]] Text* rare_field(const char* raw, KinetoEvent& event) {
  switch (raw[0]) {
    case 'B':
      return is_key<"Bytes">(raw) ? event.rare_field(&Rare::bytes) : nullptr;
    case 'C':
      return is_key<"Collective name">(raw) ? event.rare_field(&Rare::collective) : nullptr;
    case 'D':
      if (is_key<"Device Type">(raw)) return event.rare_field(&Rare::memory_of);
      return is_key<"Dst Rank">(raw) ? event.rare_field(&Rare::destination_rank) : nullptr;
    case 'G':
      if (is_key<"Group size">(raw)) return event.rare_field(&Rare::group_size);
      if (is_key<"Global rank start">(raw)) return event.rare_field(&Rare::first_rank);
      return is_key<"Global rank stride">(raw) ? event.rare_field(&Rare::rank_stride) : nullptr;
    case 'I':
      if (is_key<"In msg nelems">(raw)) return event.rare_field(&Rare::in_elements);
      return is_key<"In split size">(raw) ? event.rare_field(&Rare::in_split) : nullptr;
    case 'O':
      if (is_key<"Out msg nelems">(raw)) return event.rare_field(&Rare::out_elements);
      return is_key<"Out split size">(raw) ? event.rare_field(&Rare::out_split) : nullptr;
    case 'P':
      if (is_key<"Process Group Name">(raw)) return event.rare_field(&Rare::group);
      if (is_key<"Process Group Ranks">(raw)) return event.rare_field(&Rare::ranks);
      return is_key<"Process Group Description">(raw) ? event.rare_field(&Rare::group_description) : nullptr;
    case 'R':
      return is_key<"Rank">(raw) ? event.rare_field(&Rare::rank) : nullptr;
    case 'S':
      if (is_key<"Seq">(raw)) return event.rare_field(&Rare::collective_sequence);
      return is_key<"Src Rank">(raw) ? event.rare_field(&Rare::source_rank) : nullptr;
    case 'c':
      return is_key<"cuda_sync_kind">(raw) ? event.rare_field(&Rare::sync_kind) : nullptr;
    case 'd':
      return is_key<"dtype">(raw) ? event.rare_field(&Rare::dtype) : nullptr;
    case 'r':
      return is_key<"rank">(raw) ? event.rare_field(&Rare::event_rank) : nullptr;
    case 'w':
      if (is_key<"wait_on_stream">(raw)) return event.rare_field(&Rare::waited_stream);
      return is_key<"wait_on_cuda_event_record_corr_id">(raw) ? event.rare_field(&Rare::waited_record) : nullptr;
    default:
      return nullptr;
  }
}

// The field that holds a value of `args`, or null. Keys differ in case and spelling from era to era.
[[gnu::always_inline]] inline Text* argument_field(const char* raw, KinetoEvent& event) {
  switch (raw[0]) {
    case 'E':
      return is_key<"External id">(raw) ? &event.external_id : nullptr;
    case 'e':
      return is_key<"external id">(raw) ? &event.external_id : nullptr;
    case 'c':
      return is_key<"correlation">(raw) ? &event.correlation : rare_field(raw, event);
    case 'S':
      return is_key<"Sequence number">(raw) ? &event.sequence : rare_field(raw, event);
    case 's':
      if (is_key<"stream">(raw)) return &event.stream;
      return is_key<"sequence number">(raw) ? &event.sequence : nullptr;
    case 'F':
      return is_key<"Fwd thread id">(raw) ? &event.forward_thread : nullptr;
    case 'f':
      return is_key<"fwd thread id">(raw) ? &event.forward_thread : nullptr;
    case 'I':
      if (is_key<"Input Dims">(raw) || is_key<"Input dims">(raw)) return &event.shapes;
      return is_key<"Input type">(raw) ? &event.types : rare_field(raw, event);
    case 'R':
      return is_key<"Record function id">(raw) ? &event.record_function : rare_field(raw, event);
    case 'd':
      return is_key<"device">(raw) ? &event.device : rare_field(raw, event);
    case 'n':
      return is_key<"name">(raw) ? &event.label : nullptr;
    case 'B':
    case 'C':
    case 'D':
    case 'G':
    case 'O':
    case 'P':
    case 'r':
    case 'w':
      return rare_field(raw, event);
    default:
      return nullptr;
  }
}

[[gnu::always_inline]] inline Text* event_field(const char* raw, KinetoEvent& event) {
  switch (raw[0]) {
    case 'p':
      if (is_key<"ph">(raw)) return &event.phase;
      return is_key<"pid">(raw) ? &event.process : nullptr;
    case 'c':
      return is_key<"cat">(raw) ? &event.category : nullptr;
    case 'n':
      return is_key<"name">(raw) ? &event.name : nullptr;
    case 't':
      if (is_key<"ts">(raw)) return &event.start;
      return is_key<"tid">(raw) ? &event.thread : nullptr;
    case 'd':
      return is_key<"dur">(raw) ? &event.duration : nullptr;
    case 'i':
      return is_key<"id">(raw) ? &event.id : nullptr;
    default:
      return nullptr;
  }
}

// The raw text of a value: of a scalar up to the next token (it is skipped later), of an array to its end.
[[gnu::always_inline]] inline simdjson::error_code read_text(od::value value, Text& text) {
  const std::string_view token = value.raw_json_token();
  if (token[0] != '[') {
    text = token;
    return simdjson::SUCCESS;
  }
  od::array array;
  if (const auto error = value.get_array().get(array)) return error;
  return array.raw_json().get(text);
}

template <class FieldOf>
[[gnu::always_inline]] inline simdjson::error_code read_fields(od::object object, KinetoEvent& event,
                                                               FieldOf field_of) {
  for (auto found : object) {
    od::field field;
    if (const auto error = std::move(found).get(field)) return error;
    if (Text* const text = field_of(field, event))
      if (const auto error = read_text(field.value(), *text)) return error;
  }
  return simdjson::SUCCESS;
}

[[gnu::always_inline]] inline simdjson::error_code read_arguments(od::value value, KinetoEvent& event) {
  const char first = value.raw_json_token()[0];
  if (first != '{') return simdjson::SUCCESS;  // "args": null and the like
  od::object object;
  if (const auto error = value.get_object().get(object)) return error;
  return read_fields(object, event,
                     [](const od::field& field, KinetoEvent& e) { return argument_field(field.key().raw(), e); });
}

// Python frames are only counted, and of the metadata only names matter; either may be most of a file.
[[gnu::always_inline]] inline bool needs_arguments(const KinetoEvent& event) {
  if (!event.category.empty() && is_key<"python_function">(event.category.data() + 1)) return false;
  const bool of_metadata = event.phase.size() > 1 && event.phase[1] == 'M';  // a phase may be a number, too
  if (!of_metadata || event.name.empty()) return true;
  return is_key<"thread_name">(event.name.data() + 1) || is_key<"process_name">(event.name.data() + 1);
}

simdjson::error_code read_event(od::object object, KinetoEvent& event) {
  for (auto found : object) {
    od::field field;
    if (const auto error = std::move(found).get(field)) return error;
    const char* const raw = field.key().raw();
    if (raw[0] == 'a' && is_key<"args">(raw)) {
      if (!needs_arguments(event)) continue;
      if (const auto error = read_arguments(field.value(), event)) return error;
    } else if (Text* const text = event_field(raw, event)) {
      if (const auto error = read_text(field.value(), *text)) return error;
    }
  }
  return simdjson::SUCCESS;
}

}  // namespace

struct KinetoWalker::Parser {
  od::parser parser;
  std::vector<char> text;  ///< of the window, in brackets, with the padding that the parser may read
};

KinetoWalker::KinetoWalker() : parser_(std::make_unique<Parser>()) {}
KinetoWalker::~KinetoWalker() = default;

Walk KinetoWalker::walk(std::string_view window, KinetoSink& sink) {
  constexpr std::size_t padding = 2 * simdjson::SIMDJSON_PADDING;
  const std::size_t size = window.size();
  std::vector<char>& text = parser_->text;
  if (text.size() < size + 2 + padding) text.resize(size + 2 + padding);
  text[0] = '[';
  std::memcpy(text.data() + 1, window.data(), size);
  text[size + 1] = ']';
  std::memset(text.data() + size + 2, ' ', padding);
  Walk result{WalkEnd::window, 0};
  const auto offset_of = [&](const char* at) { return static_cast<std::size_t>(at - text.data() - 1); };
  [&] {
    od::document document;
    od::array events;
    if (parser_->parser.iterate(text.data(), size + 2, text.size()).get(document) || document.get_array().get(events)) {
      result.end = WalkEnd::invalid;
      return;
    }
    bool any = false;
    KinetoEvent event;
    for (auto found : events) {
      od::value value;
      od::object object;
      if (std::move(found).get(value)) {  // what follows the last event is neither a comma nor the end
        result.end = WalkEnd::broken;
        if (any) result.next += bracketed_size(window.substr(result.next));
        return;
      }
      any = true;
      result.next = offset_of(value.raw_json_token().data());
      event.clear();
      if (value.get_object().get(object) || read_event(object, event)) {
        result.end = WalkEnd::broken;
        return;
      }
      sink.add(event);
    }
    const char* at = nullptr;
    if (document.current_location().get(at)) {
      result.next = size;  // our own bracket closed the array
      return;
    }
    result = {WalkEnd::closed, offset_of(at)};
  }();
  return result;
}

}  // namespace stepcast
