// What a report page was made from: memory, the trace and what was assumed of it, the cluster and where its numbers
// come from.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/report/text/phrases.hpp>

#include <algorithm>
#include <ostream>

namespace stepcast {
namespace {

void write_list(std::ostream& out, std::string_view title, const std::vector<std::string>& items) {
  if (items.empty()) return;
  out << "<h3>" << title << "</h3>\n<ul>\n";
  for (const std::string& item : items) out << "<li>" << html(item) << "</li>\n";
  out << "</ul>\n";
}

/// The layers that take most of the time; a table of all would be the profile.
void write_layers(std::ostream& out, const Profile& profile) {
  constexpr std::size_t shown = 12;
  const auto time_of = [&](const Layer& l) {
    const auto pass = [&](const PassCost& c) { return profile.has_device() ? c.device : c.host; };
    return pass(l.forward) + pass(l.backward);
  };
  std::vector<Bytes> gradients(profile.layers.size());
  for (const Tensor& t : profile.tensors) gradients[t.layer] += t.size;
  std::vector<std::size_t> order(profile.layers.size());
  Seconds total;
  for (std::size_t l = 0; l < order.size(); ++l) order[l] = l, total += time_of(profile.layers[l]);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t l) { return time_of(profile.layers[l]); });
  order.resize(std::min(shown, order.size()));
  const std::string caption = order.size() < profile.layers.size()
                                  ? "The " + std::to_string(order.size()) + " of " +
                                        counted(std::ssize(profile.layers), "layer") + " that take longest"
                                  : "Layers, the longest first";
  open_scroller(out, caption);
  out << "<table>\n<caption>" << caption << (profile.has_device() ? " (device time)" : " (host time)")
      << "</caption>\n<thead><tr><th scope=\"col\">layer</th><th scope=\"col\">forward</th><th scope=\"col\">backward"
         "</th><th scope=\"col\">share</th><th scope=\"col\">gradients</th></tr></thead>\n<tbody>\n";
  for (const std::size_t l : order) {
    const Layer& layer = profile.layers[l];
    const auto pass = [&](const PassCost& c) { return html(text_of(profile.has_device() ? c.device : c.host)); };
    out << "<tr><th scope=\"row\"><code>" << html(layer.name) << "</code></th><td>" << pass(layer.forward)
        << "</td><td>" << pass(layer.backward) << "</td><td>"
        << (total > Seconds(0) ? percent(time_of(layer) / total) : "-") << "</td><td>"
        << (gradients[l] > Bytes(0) ? html(text_of(gradients[l])) : "-") << "</td></tr>\n";
  }
  out << "</tbody>\n</table>\n";
  close_scroller(out);
}

void write_traced_ranks(std::ostream& out, const Profile& profile) {
  if (profile.ranks.empty()) return;
  open_scroller(out, "Ranks that were traced together");
  out << "<table>\n<caption>Ranks that were traced together</caption>\n<thead><tr><th scope=\"col\">rank</th><th "
         "scope=\"col\">step</th><th scope=\"col\">transfer</th><th scope=\"col\">waiting</th><th "
         "scope=\"col\">late</th><th scope=\"col\">clock known to</th></tr></thead>\n<tbody>\n";
  for (const TracedRank& r : profile.ranks)
    out << "<tr><th scope=\"row\">" << r.rank << "</th><td>"
        << (r.step > Seconds(0) ? html(text_of(r.step)) : "unknown") << "</td><td>" << html(text_of(r.transfer))
        << "</td><td>" << html(text_of(r.waiting)) << "</td><td>" << html(text_of(r.late)) << "</td><td>"
        << html(text_of(r.clock_residual)) << "</td></tr>\n";
  out << "</tbody>\n</table>\n";
  close_scroller(out);
}

void write_collectives(std::ostream& out, const Profile& profile) {
  if (profile.collectives.empty()) return;
  open_scroller(out, "Collectives in the trace");
  out << "<table>\n<caption>Collectives in the trace, per step</caption>\n<thead><tr><th "
         "scope=\"col\">operation</th><th scope=\"col\">for</th><th "
         "scope=\"col\">count</th><th scope=\"col\">bytes</th><th scope=\"col\">time</th><th scope=\"col\">bytes known "
         "from</th></tr></thead>\n<tbody>\n";
  for (const ObservedCollective& c : profile.collectives)
    out << "<tr><th scope=\"row\"><code>" << html(c.operation) << "</code></th><td>" << html(words_of(c.role))
        << "</td><td>" << c.count << "</td><td>" << (c.size > Bytes(0) ? html(text_of(c.size)) : "unknown")
        << "</td><td>" << html(text_of(c.duration)) << "</td><td>" << html(name_of(c.source)) << "</td></tr>\n";
  out << "</tbody>\n</table>\n";
  close_scroller(out);
}

Terms trace_terms(const ReportPage& page) {
  const Profile& profile = page.profile;
  Terms terms{{"model", html(model_text(profile))}, {"gradients", html(gradients_text(profile))}};
  if (profile.measured_step() > Seconds(0))
    terms.emplace_back("measured step", html(text_of(profile.measured_step())) + ", median of " +
                                            counted(std::ssize(profile.step_times), "step"));
  terms.emplace_back("compute alone", html(text_of(compute_time(profile))) + " a step: forward " +
                                          html(text_of(forward_time(profile))) + ", backward " +
                                          html(text_of(backward_time(profile))) + ", the rest update and other work");
  if (profile.input > Seconds(0)) terms.emplace_back("input", html(text_of(profile.input)) + " waiting for the batch");
  terms.emplace_back("traced on", counted(profile.traced_workers, "worker"));
  if (profile.unclassified_share >= 0)
    terms.emplace_back("not understood", percent(profile.unclassified_share) + " of the time of all events");
  if (!profile.provenance.empty()) terms.emplace_back("from", html(profile.provenance));
  return terms;
}

Terms link_terms(const Cluster& c) {
  Terms terms{{"cluster", html(cluster_text(c))}};
  if (c.devices_per_node > 1) terms.emplace_back("inside a machine", html(inside_text(c)));
  if (c.nodes > 1)
    terms.emplace_back("between machines", html(text_of(c.network.bandwidth)) + ", latency " +
                                               html(text_of(c.network.latency)) + html(levels_text(c)));
  if (!c.device.empty()) terms.emplace_back("device", html(c.device));
  terms.emplace_back(
      "all-reduce",
      html(c.all_reduce) + (c.tables.empty() ? "" : ", and " + counted(std::ssize(c.tables), "measured table")));
  if (const std::string library = library_in_words(c); !library.empty()) terms.emplace_back("library", html(library));
  if (c.message_overhead > Seconds(0))
    terms.emplace_back("each message", html(text_of(c.message_overhead)) + " on the host");
  if (c.relative_error > 0) terms.emplace_back("fit", percent(c.relative_error) + " rms residual");
  return terms;
}

}  // namespace

void write_memory_section(std::ostream& out, const ReportPage& page) {
  open_section(out, "memory", "Memory");
  const Profile& profile = page.profile;
  const Bytes gradients = profile.gradient_size(), cap = page.cluster.device_memory;
  const bool known = profile.activation_memory > Bytes(0);
  const Bytes total = profile.activation_memory + 2 * gradients;
  Terms terms{{"gradients", html(text_of(gradients))},
              {"weights", html(text_of(gradients)) + ", taken as large as the gradients"},
              {"activations", known ? html(text_of(profile.activation_memory)) + " held for the backward pass"
                                    : "unknown: the trace does not tell"},
              {known ? "together" : "at least", html(text_of(total))}};
  if (cap > Bytes(0))
    terms.emplace_back("of a device", html(text_of(cap)) + ", of which " + percent(total / cap) +
                                          (total > cap ? ": <strong>more than it has</strong>" : ""));
  else terms.emplace_back("of a device", "unknown: neither the cluster nor its device says");
  write_terms(out, terms);
  out << "<p>Every plan of the ranking needs as much on each worker. Not contained: the optimizer's state, buffers of "
         "communication, fragmentation, and what the framework itself takes.</p>\n";
  close_section(out);
}

void write_trace_section(std::ostream& out, const ReportPage& page) {
  const Profile& profile = page.profile;
  open_section(out, "trace", "Trace");
  write_terms(out, trace_terms(page));
  write_list(out, "Recognised", profile.recognised);
  write_list(out, "Missing", profile.missing);
  write_list(out, "Assumed", profile.assumed);
  if (!profile.layers.empty()) write_layers(out, profile);
  write_collectives(out, profile);
  write_traced_ranks(out, profile);
  close_section(out);
}

void write_cluster_section(std::ostream& out, const ReportPage& page) {
  open_section(out, "cluster", "Cluster");
  write_terms(out, link_terms(page.cluster));
  write_list(out, "Where its numbers come from", page.cluster.provenance);
  close_section(out);
}

}  // namespace stepcast
