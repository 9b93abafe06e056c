// Manual: the page of man(1), written from what the parser knows.
#include "command.hpp"
#include "command_line.hpp"
#include "help.hpp"

#include <stepcast/base/words.hpp>

#include <algorithm>
#include <map>
#include <string_view>

namespace stepcast::cli {
namespace {

/// Text as groff takes it: no line is taken for a request, hyphens are those of command lines.
std::string roff(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if (c == '\'') out += "\\(aq";
    else if (c == '`') out += "\\(ga";
    else if (c == '^') out += "\\(ha";
    else if (c == '~') out += "\\(ti";
    else out += c;
  }
  return out;
}

std::string example(std::string_view text) {
  constexpr std::size_t width = 71;  // beside the margin of a paragraph
  std::string out = ".PP\n.nf\n";
  for (const std::string& line : example_lines(text, width)) out += roff(line.empty() ? " " : line) + '\n';
  return out + ".fi\n";
}

std::string tagged(const FlagWords& flag) {
  std::string tag;
  for (const std::string& name : flag.names) tag += (tag.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  if (!flag.value.empty() && flag.name().starts_with('-')) tag += " \\fI" + roff(flag.value) + "\\fR";
  return ".TP\n" + tag + (flag.repeated ? " ...\n" : "\n") + roff(flag.description) + '\n';
}

/// How often the same flag is meant the same.
std::map<std::string, int> uses_of(const std::vector<VerbWords>& verbs) {
  std::map<std::string, int> uses;
  for (const VerbWords& verb : verbs)
    for (const FlagWords& flag : verb.flags) ++uses[tagged(flag)];
  return uses;
}
constexpr int often = 3;

std::string usage_of(const VerbWords& verb) {
  std::string out = ".B stepcast " + roff(verb.name) + "\n[\\fIflags\\fR]";
  for (const FlagWords& argument : verb.arguments)
    out += " " + std::string(argument.required ? "" : "[") + "\\fI" + roff(argument.name()) + "\\fR" +
           (argument.repeated ? " ..." : "") + (argument.required ? "" : "]");
  return out + '\n';
}

std::string section_of(const VerbWords& verb, const std::map<std::string, int>& uses, std::string_view examples) {
  std::string out = ".SS " + roff(verb.name) + "\n" + roff(verb.summary) + ".\n.PP\n" + usage_of(verb);
  std::string common;
  for (const FlagWords& argument : verb.arguments) out += tagged(argument);
  for (const FlagWords& flag : verb.flags) {
    if (flag.name() == "--help") continue;
    const std::string text = tagged(flag);
    if (uses.at(text) < often) out += text;
    else add_to_list(common, roff(flag.name()));
  }
  if (!common.empty()) out += ".PP\nAnd of the common flags: " + common + ".\n";
  return out + example(examples);
}

std::string common_flags(const std::vector<VerbWords>& verbs, const std::map<std::string, int>& uses) {
  std::string out;
  std::vector<std::string> said;
  for (const VerbWords& verb : verbs)
    for (const FlagWords& flag : verb.flags) {
      const std::string text = tagged(flag);
      if (uses.at(text) < often || std::find(said.begin(), said.end(), text) != said.end()) continue;
      said.push_back(text);
      out += text;
    }
  return out;
}

constexpr std::string_view closing = R"(.SH EXIT STATUS
.TP
.B 0
The question was answered.
.TP
.B 1
The answer is no: a plan that the cluster cannot run, a file that cannot be read, a case that fails.
.TP
.B 2
Usage or input error; one line on standard error says where, what was expected, what was found and what to do.
.TP
.B 3
A bug of stepcast.
.SH FILES
Traces, plain or gzip, in the formats of
.BR "stepcast list formats" ,
and tar archives of them; profiles, clusters, devices, input pipelines and rules for kernels as JSON with a
.I schema
key.
.B \-
is standard input where a file is read, and standard output where one is written.
Clusters, devices and models that are named without a file are part of the program
.RB ( "stepcast list" ).
No other file is read, none is written but those that flags name, and nothing is sent anywhere.
.PP
Quantities carry their unit: \(dq25 Gb/s\(dq, \(dq64 MiB\(dq, \(dq5 ms\(dq; a small b is a bit, a capital B a byte.
.SH SEE ALSO
.BR bash (1),
.BR zsh (1),
.BR fish (1);
.B stepcast completion
prints what they need.
)";

}  // namespace

std::string manual_page(const CLI::App& program) {
  const std::vector<VerbWords> words = command_line_of(program);
  const std::map<std::string, int> uses = uses_of(words);
  std::string out =
      ".\\\" Made by 'stepcast manual' from the program's parser.\n"
      ".TH STEPCAST 1 \"\" \"stepcast " STEPCAST_VERSION
      "\" \"User Commands\"\n.nh\n.ad l\n"
      ".SH NAME\nstepcast \\- step time of distributed training, forecast from profiler traces\n"
      ".SH SYNOPSIS\n.B stepcast\n.I verb\n[\\fIflags\\fR] [\\fIarguments\\fR]\n.br\n"
      ".B stepcast\n.I verb\n.B \\-\\-help\n.SH DESCRIPTION\n";
  out += roff(program.get_description()) + "\n.SH VERBS\n";
  for (const VerbWords& verb : words)
    for (const Verb* record : verbs())
      if (record->name == verb.name) out += section_of(verb, uses, record->example);
  out += ".SH COMMON FLAGS\n" + common_flags(words, uses);
  return out += closing;
}

}  // namespace stepcast::cli
