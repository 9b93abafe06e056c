// Completion: what the shells offer at the next TAB, written from what the parser knows.
#include "command_line.hpp"

#include <cctype>
#include <map>
#include <string_view>

namespace stepcast::cli {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

std::vector<std::string> names_of(const std::vector<FlagWords>& flags) {
  std::vector<std::string> names;
  for (const FlagWords& flag : flags) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

std::vector<std::string> names_of(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names;
  for (const VerbWords& verb : verbs) names.push_back(verb.name);
  return names;
}

/// The first clause of a description, for shells that show it beside a name.
std::string clause_of(std::string text) { return text.substr(0, text.find("; ")); }

std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') out += special.find('\\') == std::string_view::npos ? "'\\''" : "\\'";
    else if (special.find(c) != std::string_view::npos) out += std::string("\\") + c;
    else out += c;
  }
  return out;
}

/// What bash completes the value of a flag with, as assignments.
std::string bash_values(const FlagWords& flag) {
  std::string out;
  if (const std::vector<std::string> words = flag.words(); !words.empty()) out += " words='" + joined(words) + "'";
  if (flag.files()) out += " files=yes";
  if (flag.several()) out += " list=yes";
  return out;
}

std::string bash_case(const std::vector<FlagWords>& flags) {
  std::map<std::string, std::vector<std::string>> flags_of_values;
  for (const FlagWords& flag : flags)
    if (!flag.value.empty())
      for (const std::string& name : flag.names) flags_of_values[bash_values(flag)].push_back(name);
  std::string out = "      case $prev in\n";
  for (const auto& [values, names] : flags_of_values)
    out += "        " + joined(names, "|") + ") value=yes" + values + " ;;\n";
  return out + "      esac\n";
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  const std::vector<VerbWords> verbs = command_line_of(program);
  std::string out = R"(# bash completion of stepcast, made by 'stepcast completion bash'
_stepcast() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local verb= flags= value= words= files= list= before= i
  # "--flag=value" comes as three words.
  if [[ $cur == = ]]; then cur=
  elif [[ $prev == = && COMP_CWORD -gt 1 ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then verb=${COMP_WORDS[i]}; break; fi
  done
  case $verb in
    '')
      flags=')" + joined(names_of(flags_of(program))) +
                    "' words='" + joined(names_of(verbs)) + "' ;;\n";
  for (const VerbWords& verb : verbs) {
    out += "    " + verb.name + ")\n" + bash_case(verb.flags);
    std::string argument;
    if (!verb.arguments.empty()) argument = bash_values(verb.arguments.front());
    out += "      flags='" + joined(names_of(verb.flags)) + "'\n";
    out += "      if [[ ! $value && $cur != -* ]]; then :" + (argument.empty() ? "" : ";" + argument) + "; fi ;;\n";
  }
  return out + R"(  esac
  if [[ ! $value && $cur == -* ]]; then words=$flags; fi
  if [[ $list && $cur == *,* ]]; then before=${cur%,*}, ; fi
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "${cur#"$before"}")
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=:] ]]; then compopt -o nospace 2>/dev/null; fi
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -F _stepcast stepcast
)";
}

namespace {

std::string zsh_text(std::string_view text) { return escaped(text, "[]:"); }

/// What zsh completes a value with.
std::string zsh_action(const FlagWords& flag) {
  const std::string words = escaped(joined(flag.words()), ":");
  if (words.empty()) return flag.files() ? "_files" : " ";
  if (flag.several()) return "_sequence compadd - " + words;
  if (flag.files()) return " _stepcast_names_or_files " + words;  // the space: without arguments of _arguments
  return "(" + words + ")";
}

std::string zsh_flag(const FlagWords& flag) {
  const std::string text = zsh_text(clause_of(flag.description));
  const std::string value = flag.value.empty() ? "" : ":" + zsh_text(flag.value) + ":" + zsh_action(flag);
  if (flag.names.size() == 1)
    return "'" + std::string(flag.repeated ? "*" : "") + flag.name() + "[" + text + "]" + value + "'";
  return "'(" + joined(flag.names) + ")'{" + joined(flag.names, ",") + "}'[" + text + "]" + value + "'";
}

}  // namespace

std::string zsh_completion(const CLI::App& program) {
  const std::vector<VerbWords> verbs = command_line_of(program);
  std::string out =
      "#compdef stepcast\n# zsh completion of stepcast, made by 'stepcast completion zsh'\n"
      "_stepcast_names_or_files() { _alternative \"names:name:($*)\" 'files:file:_files' }\n"
      "_stepcast() {\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
      "  local -a verbs=(\n";
  for (const VerbWords& verb : verbs) out += "    '" + verb.name + ":" + zsh_text(verb.summary) + "'\n";
  out += "  )\n  _arguments -C";
  for (const FlagWords& flag : flags_of(program)) out += " \\\n    " + zsh_flag(flag);
  out +=
      " \\\n    '1:verb:->verb' '*::argument:->arguments'\n"
      "  case $state in\n    verb) _describe verb verbs ;;\n    arguments)\n      case $words[1] in\n";
  for (const VerbWords& verb : verbs) {
    out += "        " + verb.name + ")\n          _arguments";
    for (const FlagWords& flag : verb.flags) out += " \\\n            " + zsh_flag(flag);
    for (const FlagWords& argument : verb.arguments)
      out += " \\\n            '" + std::string(argument.repeated ? "*" : "1") + ":" + argument.name() + ":" +
             zsh_action(argument) + "'";
    out += " ;;\n";
  }
  // As a file of $fpath it is the body of a function that is called; sourced, it registers itself.
  return out + R"(      esac ;;
  esac
}
if [[ $funcstack[1] == _stepcast ]]; then _stepcast "$@"; else compdef _stepcast stepcast; fi
)";
}

namespace {

std::string fish_text(std::string_view text) { return "'" + escaped(text, "\\") + "'"; }

std::string fish_values(const FlagWords& flag) {
  if (flag.value.empty()) return "";
  std::string out = flag.files() ? " -r -F" : " -x";
  if (const std::string words = joined(flag.words()); !words.empty())
    out += flag.several() ? " -a '(__fish_append , " + words + ")'" : " -a '" + words + "'";
  return out;
}

std::string fish_flag(const FlagWords& flag) {
  std::string out;
  for (const std::string& name : flag.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return out + fish_values(flag) + " -d " + fish_text(clause_of(flag.description));
}

}  // namespace

std::string fish_completion(const CLI::App& program) {
  const std::vector<VerbWords> verbs = command_line_of(program);
  std::string out = "# fish completion of stepcast, made by 'stepcast completion fish'\ncomplete -c stepcast -f\n";
  const std::string none = "complete -c stepcast -n __fish_use_subcommand";
  for (const FlagWords& flag : flags_of(program)) out += none + fish_flag(flag) + '\n';
  for (const VerbWords& verb : verbs) out += none + " -a " + verb.name + " -d " + fish_text(verb.summary) + '\n';
  for (const VerbWords& verb : verbs) {
    const std::string in = "complete -c stepcast -n '__fish_seen_subcommand_from " + verb.name + "'";
    for (const FlagWords& flag : verb.flags) out += in + fish_flag(flag) + '\n';
    for (const FlagWords& argument : verb.arguments) {
      if (argument.files()) out += in + " -F\n";
      if (const std::string words = joined(argument.words()); !words.empty()) out += in + " -a '" + words + "'\n";
    }
  }
  return out;
}

}  // namespace stepcast::cli
