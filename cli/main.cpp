// stepcast: the command line. Parses the verb, runs it, and turns every failure into one line and an exit code.
#include "command.hpp"
#include "files.hpp"
#include "help.hpp"
#include "values.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/printable.hpp>
#include <stepcast/base/words.hpp>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace stepcast::cli {

std::span<const Verb* const> verbs() {
  static const Verb* const all[] = {&explain_verb, &recommend_verb,  &compare_verb, &predict_verb,   &sweep_verb,
                                    &report_verb,  &why_verb,        &diff_verb,    &replay_verb,    &inspect_verb,
                                    &profile_verb, &whatif_verb,     &export_verb,  &calibrate_verb, &validate_verb,
                                    &list_verb,    &completion_verb, &manual_verb};
  return all;
}

namespace {

ExitCode complain(std::string_view message, ExitCode code) {
  std::string line(message);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::cerr << "stepcast: " << printable(line) << '\n';
  return code;
}

/// What else could have been meant: the verbs, or the flags of the verb in use.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> words;
  const auto used = app.get_subcommands();
  if (used.empty())
    for (const Verb* verb : verbs()) words.emplace_back(verb->name);
  else
    for (const CLI::Option* option : used.front()->get_options())
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  return words;
}

/// Flags as other tools name them, and how the same is said here; empty for any other word.
std::string said_here(std::string_view flag) {
  struct Elsewhere {
    std::string_view flag, here;
  };
  static constexpr Elsewhere table[] = {
      {"--nics", "--network '8 x 400Gb/s' is a machine with eight cards"},
      {"--gpus", "--workers says how many devices there are in all"},
      {"--world-size", "--workers says how many devices there are in all"},
      {"--nproc-per-node", "--per-node says how many devices a machine has"},
      {"--gpus-per-node", "--per-node says how many devices a machine has"},
      {"--nnodes", "--workers says how many devices there are in all, --per-node how many a machine has"},
      {"--nodes", "--workers says how many devices there are in all, --per-node how many a machine has"},
      {"--bandwidth", "--network is the link between machines, --inside the one within them"},
      {"--nvlink", "--inside is the link between the devices of a machine"},
      {"--gpu", "--device names the device"},
      {"--batch-size", "--batch is what a worker has in each step, --global-batch what all have"},
      {"--beside", "predict, compare and recommend put a second job beside this one"},
      {"--beside-model", "predict, compare and recommend put a second job beside this one"},
      {"--beside-batch", "predict, compare and recommend put a second job beside this one"},
      {"--strategy", "--plan names a strategy, with its options and a layout"},
  };
  const std::string_view name = flag.substr(0, flag.find('='));
  const auto* found = std::ranges::find(table, name, &Elsewhere::flag);
  return found == std::end(table) ? std::string() : std::string(found->here);
}

ExitCode complain_of_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  const std::string word = extras.empty() ? "" : extras.front();
  const auto used = app.get_subcommands();
  const bool flag = !word.empty() && word.front() == '-';
  const std::string verb = used.empty() ? "" : used.front()->get_name();
  const std::string here = flag ? said_here(word) : used.empty() ? model_hint(word) : std::string();
  const InputError error(
      verb,
      flag           ? "a known flag"
      : used.empty() ? "a verb or a trace"
                     : "no further argument",
      in_quotes(word),
      !here.empty()
          ? here
          : did_you_mean(word, known_words(app), "see 'stepcast " + verb + (verb.empty() ? "--help'" : " --help'")));
  return complain(error.what(), input_error);
}

/// An empty value is a variable of the shell that was never set, and nobody's wish.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options({}))
    if (option->get_expected_max() > 0 && std::ranges::count(option->results(), "") > 0)
      throw InputError(option->get_name(), "a value", "an empty text");
}

bool is_verb(std::string_view word) {
  return std::ranges::any_of(verbs(), [&](const Verb* verb) { return verb->name == word; });
}

bool is_there(const std::string& name) {
  std::error_code failed;
  return std::filesystem::exists(name, failed);
}

/// The words of the command line; files without a verb are to be explained. A verb comes before a file of its name.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help" && words.size() <= 2) {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  const auto first =
      std::ranges::find_if(words, [](const std::string& word) { return !word.starts_with('-') || word == "-"; });
  if (std::ranges::any_of(words, is_verb) || first == words.end()) return words;
  const bool path = *first == "-" || first->find_first_of("./") != std::string::npos;
  if (path || is_there(*first)) words.insert(words.begin(), std::string(explain_verb.name));
  return words;
}

/// What to do about a file that has the name of the verb, where the verb got nothing to read.
std::string file_of_that_name(const CLI::App& app) {
  const std::string name = app.get_subcommands().front()->get_name();
  return is_there(name) ? "; the file of this name is './" + name + "'" : "";
}

int run(int argc, char** argv) {
  CLI::App app("Forecasts the step time of distributed training from profiler traces, and says which plan to run.",
               "stepcast");
  app.set_version_flag("-V,--version", "stepcast " STEPCAST_VERSION);
  app.require_subcommand(1);
  app.formatter(help_formatter());
  app.footer(
      "Try: stepcast trace.json.gz  # where its step goes\n"
      "     stepcast recommend trace.json.gz --workers 16 --per-node 4 --network 10GbE\n"
      "Exit codes: 0 answered, 1 the answer is no, 2 usage or input error, 3 a bug");
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Verb* verb : verbs()) {
    CLI::App* command = app.add_subcommand(std::string(verb->name), std::string(verb->summary));
    std::string example = "Example:";
    for (const std::string& line : example_lines(verb->example, 78)) example += (line.empty() ? "\n" : "\n  ") + line;
    command->footer(example);
    actions.emplace_back(command, verb->add_flags(*command));
    name_values(*command);
  }
  try {
    std::vector<std::string> words = words_of(argc, argv);
    std::ranges::reverse(words);  // as the parser has them
    app.parse(std::move(words));
  } catch (const CLI::Success& help_or_version) {
    write_output("-", [&](std::ostream& out) { app.exit(help_or_version, out, std::cerr); });
    return answered;
  } catch (const CLI::ExtrasError&) { return complain_of_extras(app); } catch (const CLI::RequiredError& error) {
    if (!app.get_subcommands().empty()) return complain(error.what() + file_of_that_name(app), input_error);
    return argc > 1 ? complain_of_extras(app) : complain("expected a verb; see 'stepcast --help'", input_error);
  } catch (const CLI::ParseError& error) { return complain(error.what(), input_error); }
  for (const auto& [command, action] : actions)
    if (command->parsed()) return refuse_empty_values(*command), action();
  return internal_error;
}

}  // namespace
}  // namespace stepcast::cli

int main(int argc, char** argv) {
  using namespace stepcast::cli;
  try {
    return run(argc, argv);
  } catch (const stepcast::InputError& error) {
    return complain(error.what(), input_error);
  } catch (const std::exception& error) {
    return complain(std::string("internal error: ") + error.what() + "; please report it with the input",
                    internal_error);
  }
}
