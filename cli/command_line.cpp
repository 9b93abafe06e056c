// The words of a command line as the shell would write them again.
#include "command_line.hpp"

#include "help.hpp"

namespace stepcast::cli {
namespace {

FlagWords words_of(const CLI::Option& option) {
  FlagWords flag;
  if (option.get_positional()) flag.names.push_back(option.get_name(true, false));
  else {
    for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  }
  if (option.get_expected_max() > 0) flag.value = option.get_type_name();
  flag.description = description_of(option);
  flag.kind = kind_of(option);
  flag.required = option.get_required();
  flag.repeated =
      option.get_expected_max() >= CLI::detail::expected_max_vector_size ||
      (option.get_expected_max() > 0 && option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll);
  return flag;
}

}  // namespace

std::vector<std::string> FlagWords::words() const {
  return kind && kind->words ? kind->words() : std::vector<std::string>{};
}

std::vector<FlagWords> flags_of(const CLI::App& app) {
  std::vector<FlagWords> flags;
  for (const CLI::Option* option : app.get_options({}))
    if (!option->get_positional()) flags.push_back(words_of(*option));
  return flags;
}

std::vector<VerbWords> command_line_of(const CLI::App& program) {
  std::vector<VerbWords> verbs;
  for (const CLI::App* app : program.get_subcommands({})) {
    VerbWords verb{app->get_name(), app->get_description(), flags_of(*app), {}};
    for (const CLI::Option* option : app->get_options({}))
      if (option->get_positional()) verb.arguments.push_back(words_of(*option));
    verbs.push_back(std::move(verb));
  }
  return verbs;
}

}  // namespace stepcast::cli
