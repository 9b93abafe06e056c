// The hot loop of the reader: simdjson on demand over one window of events, dispatch on the raw text of the keys.
//
// On demand validates only what it walks over. That is enough here: structure is checked as far as the walk depends on
// it, numbers are checked when they are converted, and what is skipped is not used.
#include <stepcast/json_text.hpp>
#include <stepcast/kineto_event.hpp>

#include <simdjson.h>

#include <cstring>

namespace stepcast {
namespace {

namespace od = simdjson::ondemand;
using Text = KinetoEvent::Text;

static_assert(JsonText::padding > simdjson::SIMDJSON_PADDING);

template <std::size_t N>
bool is_key(const char* raw, const char (&key)[N]) {  // `key` ends in its closing quote
  return std::memcmp(raw, key, N - 1) == 0;
}

// The field that holds a value of `args`, or null. Keys differ in case and spelling from era to era.
Text* argument_field(const char* raw, KinetoEvent& event) {
  switch (raw[0]) {
    case 'E':
      return is_key(raw, "External id\"") ? &event.external_id : nullptr;
    case 'e':
      return is_key(raw, "external id\"") ? &event.external_id : nullptr;
    case 'c':
      return is_key(raw, "correlation\"") ? &event.correlation : nullptr;
    case 'S':
      if (is_key(raw, "Sequence number\"")) return &event.sequence;
      return is_key(raw, "Seq\"") ? &event.collective_sequence : nullptr;
    case 's':
      if (is_key(raw, "stream\"")) return &event.stream;
      return is_key(raw, "sequence number\"") ? &event.sequence : nullptr;
    case 'F':
      return is_key(raw, "Fwd thread id\"") ? &event.forward_thread : nullptr;
    case 'f':
      return is_key(raw, "fwd thread id\"") ? &event.forward_thread : nullptr;
    case 'I':
      if (is_key(raw, "Input Dims\"") || is_key(raw, "Input dims\"")) return &event.shapes;
      if (is_key(raw, "Input type\"")) return &event.types;
      return is_key(raw, "In msg nelems\"") ? &event.in_elements : nullptr;
    case 'O':
      return is_key(raw, "Out msg nelems\"") ? &event.out_elements : nullptr;
    case 'C':
      return is_key(raw, "Collective name\"") ? &event.collective : nullptr;
    case 'G':
      return is_key(raw, "Group size\"") ? &event.group_size : nullptr;
    case 'P':
      return is_key(raw, "Process Group Name\"") ? &event.group : nullptr;
    case 'd':
      if (is_key(raw, "device\"")) return &event.device;
      return is_key(raw, "dtype\"") ? &event.dtype : nullptr;
    case 'n':
      return is_key(raw, "name\"") ? &event.label : nullptr;
    default:
      return nullptr;
  }
}

Text* event_field(const char* raw, KinetoEvent& event) {
  switch (raw[0]) {
    case 'p':
      if (is_key(raw, "ph\"")) return &event.phase;
      return is_key(raw, "pid\"") ? &event.process : nullptr;
    case 'c':
      return is_key(raw, "cat\"") ? &event.category : nullptr;
    case 'n':
      return is_key(raw, "name\"") ? &event.name : nullptr;
    case 't':
      if (is_key(raw, "ts\"")) return &event.start;
      return is_key(raw, "tid\"") ? &event.thread : nullptr;
    case 'd':
      return is_key(raw, "dur\"") ? &event.duration : nullptr;
    case 'i':
      return is_key(raw, "id\"") ? &event.id : nullptr;
    default:
      return nullptr;
  }
}

// The raw text of a value: of a scalar up to the next token (it is skipped later), of an array to its end.
simdjson::error_code read_text(od::value value, Text& text) {
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
simdjson::error_code read_fields(od::object object, KinetoEvent& event, FieldOf field_of) {
  for (auto found : object) {
    od::field field;
    if (const auto error = std::move(found).get(field)) return error;
    if (Text* const text = field_of(field, event))
      if (const auto error = read_text(field.value(), *text)) return error;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code read_arguments(od::value value, KinetoEvent& event) {
  const char first = value.raw_json_token()[0];
  if (first != '{') return simdjson::SUCCESS;  // "args": null and the like
  od::object object;
  if (const auto error = value.get_object().get(object)) return error;
  return read_fields(object, event,
                     [](const od::field& field, KinetoEvent& e) { return argument_field(field.key().raw(), e); });
}

bool needs_arguments(const KinetoEvent& event) { return event.category.substr(0, 8) != "\"python_"; }

simdjson::error_code read_event(od::object object, KinetoEvent& event) {
  for (auto found : object) {
    od::field field;
    if (const auto error = std::move(found).get(field)) return error;
    const char* const raw = field.key().raw();
    if (raw[0] == 'a' && is_key(raw, "args\"")) {
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
};

KinetoWalker::KinetoWalker() : parser_(new Parser) {}
KinetoWalker::~KinetoWalker() { delete parser_; }

Walk KinetoWalker::walk(char* window, std::size_t size, KinetoSink& sink) {
  const char before = window[-1], behind = window[size];
  window[-1] = '[';
  window[size] = ']';
  Walk result{WalkEnd::window, 0};
  const auto offset_of = [&](const char* at) { return static_cast<std::size_t>(at - window); };
  [&] {
    od::document document;
    od::array events;
    if (parser_->parser.iterate(window - 1, size + 2, size + 2 + simdjson::SIMDJSON_PADDING).get(document) ||
        document.get_array().get(events)) {
      result.end = WalkEnd::invalid;
      return;
    }
    bool any = false;
    for (auto found : events) {
      od::value value;
      od::object object;
      if (std::move(found).get(value)) {  // what follows the last event is neither a comma nor the end
        result.end = WalkEnd::broken;
        if (any) result.next += bracketed_size({window + result.next, size - result.next});
        return;
      }
      any = true;
      result.next = offset_of(value.raw_json_token().data());
      KinetoEvent event;
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
  window[-1] = before;
  window[size] = behind;
  return result;
}

}  // namespace stepcast
