// Settings are checked as they are taken in: unknown keys are refused with a suggestion, repeated ones by name.
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/c/settings.hpp>

#include <algorithm>

namespace stepcast {
namespace {

std::string known_key(std::string_view given, std::span<const std::string_view> keys) {
  if (std::ranges::find(keys, given) != keys.end()) return std::string(given);
  const std::vector<std::string> names(keys.begin(), keys.end());
  throw InputError("settings", "one of the keys " + listed(names), in_quotes(given), did_you_mean(given, names));
}

}  // namespace

CSettings::CSettings(const char* const* list, std::span<const std::string_view> keys, std::string_view repeatable) {
  if (!list) return;
  for (; *list; ++list) {
    const std::string_view setting = *list;
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) throw InputError("settings", "'key=value'", in_quotes(setting));
    std::string key = known_key(setting.substr(0, equals), keys);
    const auto same = [&](const auto& other) { return other.first == key; };
    if (key != repeatable && std::ranges::any_of(said_, same)) throw InputError(key, "one value", "two");
    said_.emplace_back(std::move(key), setting.substr(equals + 1));
  }
}

std::string CSettings::text(std::string_view key) const {
  for (const auto& [name, value] : said_)
    if (name == key) return value;
  return {};
}

std::vector<std::string> CSettings::texts(std::string_view key) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : said_)
    if (name == key) values.push_back(value);
  return values;
}

bool CSettings::yes(std::string_view key, bool otherwise) const {
  const std::string value = text(key);
  if (value.empty()) return otherwise;
  if (value != "yes" && value != "no") throw InputError(std::string(key), "yes or no", in_quotes(value));
  return value == "yes";
}

}  // namespace stepcast
