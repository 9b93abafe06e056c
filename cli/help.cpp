// How help is laid out: labels, wrapped texts, examples to paste.
#include "help.hpp"

#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <utility>

namespace stepcast::cli {
namespace {

constexpr std::size_t label_width = 26;

/// A label, and its text wrapped beside it; a long label has its line to itself.
std::string labelled(const std::string& label, std::string_view text) {
  std::string out = "  " + label;
  const bool beside = out.size() + 2 <= label_width;
  if (beside) out.append(label_width - out.size(), ' ');
  bool first = beside;
  for (const std::string& line : wrapped(text, page_width - label_width)) {
    if (!first) out += '\n' + std::string(label_width, ' ');
    out += line;
    first = false;
  }
  return out + '\n';
}

class WrappedHelp : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return labelled(make_option_name(option, is_positional) + make_option_opts(option), description_of(*option));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_expected_max() == 0) return "";
    const bool repeated = option->get_expected_max() >= CLI::detail::expected_max_vector_size;
    return (option->get_positional() ? "" : " " + option->get_type_name()) + (repeated ? " ..." : "");
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return labelled(verb->get_name(), verb->get_description());
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    // Of a verb the examples come first: what most people look for stands above the flags.
    const bool verb = app->get_parent() != nullptr && mode != CLI::AppFormatMode::Sub;
    std::string page = verb ? make_description(app) + make_usage(app, std::move(name)) + '\n' + make_footer(app) +
                                  make_positionals(app) + make_groups(app, mode)
                            : CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at; (at = page.find("\n\n\n")) != std::string::npos;) page.erase(at, 1);
    return page;
  }
  std::string make_description(const CLI::App* app) const override {
    std::string out;
    for (const std::string& line : wrapped(app->get_description(), page_width)) out += line + '\n';
    return out;
  }
};

/// The words of a command line, with their quotes; a backslash at the end of a line joins it with the next.
std::vector<std::string> words_of(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  const auto end_word = [&] {
    if (!word.empty() && word != "\\") words.push_back(word);
    word.clear();
  };
  for (const char c : command) {
    if (c == quote) quote = 0;
    else if (quote == 0 && (c == '\'' || c == '"')) quote = c;
    if (quote == 0 && (c == ' ' || c == '\n')) end_word();
    else word += c;
  }
  end_word();
  return words;
}

/// A command line, broken between words, with a backslash, into lines of at most `width` characters.
std::vector<std::string> pasted(std::string_view command, std::size_t width) {
  const std::vector<std::string> words = words_of(command);
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    // A flag stays with its value.
    std::string piece = words[i];
    if (piece.starts_with('-') && i + 1 < words.size() && !words[i + 1].starts_with('-')) piece += " " + words[++i];
    const std::size_t mark = i + 1 < words.size() ? 2 : 0;
    if (!line.empty() && line.size() + 1 + piece.size() + mark > width) {
      lines.push_back(line + " \\");
      line = "    " + piece;
    } else {
      line += (line.empty() ? "" : " ") + piece;
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace

HelpGroup::~HelpGroup() {
  const std::vector<CLI::Option*> options = app_.get_options([](CLI::Option*) { return true; });
  for (std::size_t i = first_; i < options.size(); ++i)
    if (options[i]->nonpositional()) options[i]->group(name_);
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<WrappedHelp>(); }

std::vector<std::string> example_lines(std::string_view example, std::size_t width) {
  std::vector<std::string> lines;
  while (!example.empty()) {
    std::size_t end = example.find('\n');
    while (end != std::string_view::npos && end > 0 && example[end - 1] == '\\') end = example.find('\n', end + 1);
    std::string_view line = example.substr(0, end);
    example.remove_prefix(end == std::string_view::npos ? example.size() : end + 1);
    while (line.starts_with(' ')) line.remove_prefix(1);
    const bool fits = line.size() <= width && line.find('\n') == std::string_view::npos;
    if (fits) lines.emplace_back(line);
    else
      for (std::string& part : line.starts_with("stepcast ") ? pasted(line, width) : wrapped(line, width))
        lines.push_back(std::move(part));
  }
  return lines;
}

std::string description_of(const CLI::Option& option) {
  std::string text = option.get_description();
  std::vector<std::string> others;
  for (const CLI::Option* other : option.get_excludes()) others.push_back(other->get_name());
  std::sort(others.begin(), others.end());
  std::string remark = option.get_required() && !option.get_positional() ? "required" : "";
  for (std::size_t i = 0; i < others.size(); ++i)
    remark += (i > 0 ? " or " : remark.empty() ? "not with " : ", not with ") + others[i];
  return remark.empty() ? text : text + " (" + remark + ")";
}

}  // namespace stepcast::cli
