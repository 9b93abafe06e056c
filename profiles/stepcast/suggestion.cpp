#include <stepcast/suggestion.hpp>
#include <stepcast/text.hpp>

namespace stepcast {

std::string listed(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names, std::string_view otherwise) {
  const std::string near = suggestion_for(word, names);
  return near.empty() ? std::string(otherwise) : "did you mean '" + near + "'?";
}

}  // namespace stepcast
