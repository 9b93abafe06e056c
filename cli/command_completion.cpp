// stepcast completion: what a shell needs to complete command lines of stepcast.
#include "command.hpp"
#include "command_line.hpp"
#include "files.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>

#include <memory>
#include <ostream>

namespace stepcast::cli {
namespace {

struct CompletionFlags {
  std::string shell, output;
};

std::string script_for(const std::string& shell, const CLI::App& program) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  if (shell == "fish") return fish_completion(program);
  throw InputError("completion", "bash, zsh or fish", in_quotes(shell));
}

ExitCode complete(const CompletionFlags& flags, const CLI::App& program) {
  const std::string script = script_for(flags.shell, program);
  write_output(flags.output, [&](std::ostream& out) { out << script; });
  return answered;
}

Action add_completion_flags(CLI::App& app) {
  auto flags = std::make_shared<CompletionFlags>();
  app.add_option("SHELL", flags->shell, "bash, zsh or fish")->required();
  app.add_option("-o,--output", flags->output, "Write to this file; - is standard output");
  return [flags, &app] { return complete(*flags, *app.get_parent()); };
}

}  // namespace

const Verb completion_verb = {"completion", "Print what a shell needs to complete verbs, flags and names",
                              "source <(stepcast completion bash)\n"
                              "stepcast completion fish > ~/.config/fish/completions/stepcast.fish",
                              add_completion_flags};

}  // namespace stepcast::cli
