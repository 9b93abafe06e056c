// stepcast manual: the manual page, made from the parser.
#include "command.hpp"
#include "command_line.hpp"
#include "files.hpp"

#include <memory>
#include <ostream>

namespace stepcast::cli {
namespace {

Action add_manual_flags(CLI::App& app) {
  auto output = std::make_shared<std::string>();
  app.add_option("-o,--output", *output, "Write to this file; - is standard output");
  return [output, &app] {
    write_output(*output, [&](std::ostream& out) { out << manual_page(*app.get_parent()); });
    return answered;
  };
}

}  // namespace

const Verb manual_verb = {"manual", "Print the manual page, for man(1)", "stepcast manual | man -l -",
                          add_manual_flags};

}  // namespace stepcast::cli
