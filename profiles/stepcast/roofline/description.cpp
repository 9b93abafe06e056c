// Pairs are read once with their columns; whoever asks for a key says its range.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/roofline/description.hpp>
#include <stepcast/roofline/named_models.hpp>

#include <algorithm>

namespace stepcast {
namespace {

std::string where(std::size_t at) { return "model, column " + std::to_string(at + 1); }
std::string quoted(std::string_view text) { return text.empty() ? "nothing" : "'" + std::string(text) + "'"; }

std::string hint_for(std::string_view word, std::span<const std::string> known, std::string_view what) {
  return did_you_mean(word, known, std::string(what) + listed(known));
}

bool is_family(const std::string& name) {
  const std::vector<std::string> families = model_families();
  return std::find(families.begin(), families.end(), name) != families.end();
}
std::vector<std::string> names_of_models() {
  std::vector<std::string> names;
  for (const NamedModel& model : named_models()) names.emplace_back(model.name);
  return names;
}

}  // namespace

ModelDescriptionText::ModelDescriptionText(std::string_view text) : size_(text.size()) {
  const std::size_t colon = text.find(':');
  family_ = trimmed(text.substr(0, colon));
  const NamedModel* named = named_model(family_);
  if (colon == std::string_view::npos && named == nullptr)
    throw InputError(where(0),
                     "a family and a colon, such as 'gpt:hidden=768,layers=12,heads=12,seq=1024', or a public model",
                     quoted(text), is_family(family_) ? "" : hint_for(family_, names_of_models(), "known are "));
  if (colon != std::string_view::npos && !trimmed(text.substr(colon + 1)).empty()) add_pairs(text, colon + 1);
  if (named == nullptr) return;
  const ModelDescriptionText standard(named->description);
  family_ = standard.family_;
  for (const auto& [key, given] : standard.given_) given_.emplace(key, Given{given.value, 0, 0});
}

void ModelDescriptionText::add_pairs(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view pair = text.substr(at, end - at);
    const std::size_t equals = pair.find('=');
    const std::string_view key = trimmed(pair.substr(0, equals));
    if (key.empty() || equals == std::string_view::npos)
      throw InputError(where(at), "'key=value'", quoted(trimmed(pair)));
    const std::size_t column = std::size_t(key.data() - text.data());
    const std::string_view value = trimmed(pair.substr(equals + 1));
    const std::size_t value_column = value.empty() ? at + equals + 1 : std::size_t(value.data() - text.data());
    if (value.empty()) throw InputError(where(value_column), "a value for '" + std::string(key) + "'", "nothing");
    if (!given_.emplace(key, Given{std::string(value), column, value_column}).second)
      throw InputError(where(column), "each key once", quoted(key) + " twice");
    at = end + 1;
  }
}

void ModelDescriptionText::refuse_family(std::span<const std::string> known) const {
  throw InputError(where(0), "a family of models", quoted(family_), hint_for(family_, known, "known are "));
}

const ModelDescriptionText::Given* ModelDescriptionText::asked(std::string_view key) {
  asked_.emplace_back(key);
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

void ModelDescriptionText::keep(std::string_view key, const std::string& value, bool standard) {
  if (!standard) kept_ += (kept_.empty() ? "" : ",") + std::string(key) + "=" + value;
}

std::int64_t ModelDescriptionText::required_integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const Given* given = asked(key);
  if (given == nullptr) {
    // A misspelt key explains best why this one is missing.
    for (const auto& [name, value] : given_)
      if (suggestion_for(name, std::vector{std::string(key)}) == key &&
          std::find(asked_.begin(), asked_.end(), name) == asked_.end())
        throw InputError(where(value.key_column), "a known key", quoted(name),
                         "did you mean '" + std::string(key) + "'?");
    throw InputError(where(size_), "'" + std::string(key) + "=...'", "the end of the text",
                     "'" + family_ + "' needs it");
  }
  const std::int64_t value =
      integer_of(given->value, where(given->value_column) + " (" + std::string(key) + ")", low, high);
  keep(key, std::to_string(value), false);
  return value;
}

std::int64_t ModelDescriptionText::integer(std::string_view key, std::int64_t standard, std::int64_t low,
                                           std::int64_t high) {
  const Given* given = asked(key);
  if (given == nullptr) return standard;
  const std::int64_t value =
      integer_of(given->value, where(given->value_column) + " (" + std::string(key) + ")", low, high);
  keep(key, std::to_string(value), value == standard);
  return value;
}

double ModelDescriptionText::share(std::string_view key, double standard) {
  const Given* given = asked(key);
  if (given == nullptr) return standard;
  const double value = number_of(given->value, where(given->value_column) + " (" + std::string(key) + ")");
  if (!(value >= 0 && value < 1)) refuse(key, "at least 0 and less than 1", given->value);
  keep(key, exact_text_of(value), value == standard);
  return value;
}

std::string ModelDescriptionText::word(std::string_view key, std::string_view standard,
                                       std::initializer_list<std::string_view> known) {
  const Given* given = asked(key);
  if (given == nullptr) return std::string(standard);
  const std::vector<std::string> names(known.begin(), known.end());
  if (std::find(names.begin(), names.end(), given->value) == names.end())
    refuse(key, listed(names), quoted(given->value), hint_for(given->value, names, "it is one of "));
  keep(key, given->value, given->value == standard);
  return given->value;
}

DataType ModelDescriptionText::data_type(std::string_view key, DataType standard, bool of_products, bool stays) {
  std::vector<DataType> known{DataType::f64, DataType::f32,  DataType::tf32,
                              DataType::f16, DataType::bf16, DataType::f8};
  if (of_products) known.push_back(DataType::f4);
  const Given* given = asked(key);
  if (given == nullptr) return standard;
  const Answer<DataType> type = data_type_of(given->value);
  if (!type || std::find(std::begin(known), std::end(known), *type) == std::end(known)) {
    std::vector<std::string> names;
    for (const DataType t : known) names.emplace_back(name_of(t));
    refuse(key, "a type of floating-point numbers", quoted(given->value),
           type && *type == DataType::f4 ? "four bits are for the products of linear layers: linear=f4"
                                         : hint_for(given->value, names, "known are "));
  }
  keep(key, std::string(name_of(*type)), *type == standard && !stays);
  return *type;
}

void ModelDescriptionText::refuse(std::string_view key, std::string expected, std::string found,
                                  std::string hint) const {
  const auto given = given_.find(key);
  throw InputError(where(given == given_.end() ? size_ : given->second.value_column) + " (" + std::string(key) + ")",
                   std::move(expected), std::move(found), std::move(hint));
}

void ModelDescriptionText::require_all_known() const {
  for (const auto& [key, given] : given_)
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
      throw InputError(where(given.key_column), "a key of '" + family_ + "'", quoted(key),
                       hint_for(key, asked_, "known are "));
}

std::string ModelDescriptionText::normalised() const { return family_ + ":" + kept_; }

}  // namespace stepcast
