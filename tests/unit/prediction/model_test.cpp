// Model: its answers are those of predictions to the last bit, whatever was asked before and on however many threads.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"
#include "helpers/random_plan.hpp"

#include <stepcast/prediction/model.hpp>
#include <stepcast/schedule/plan_flaw.hpp>
#include <stepcast/schedule/steady_period.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

using namespace stepcast;
using namespace stepcast::test;

namespace {

// The reference: every step anew, and scheduled by the clock.
struct Reference {
  double seconds = std::nan("");
  std::string reason;
};
Reference reference(const Model& model, const PlanSpec& plan) {
  const Answer<CommunicationCost> cost = communication_cost(model.cluster(), collective_of(plan));
  if (!cost) return {std::nan(""), cost.reason()};
  Timeline timeline;
  const Answer<Seconds> time = predicted_iteration(model.profile(), model.cluster(), *cost, plan, timeline);
  return time ? Reference{time->value(), ""} : Reference{std::nan(""), time.reason()};
}

bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b)); }

Cluster with_contention(Cluster c) {
  c.contention.compute_under_communication = 1.1;
  c.contention.inside_under_compute = c.contention.network_under_compute = 1.2;
  return c;
}

struct Question {
  std::size_t model;
  PlanSpec plan;
  Reference answer;
};

// Every strategy on every model, with several options, some of them modified.
std::vector<Question> questions(Draw& draw, const std::vector<Model>& models, int rounds) {
  std::vector<Question> all;
  for (std::size_t m = 0; m < models.size(); ++m)
    for (int round = 0; round < rounds; ++round) {
      const auto seed = static_cast<unsigned>(draw.engine()());
      for (const Strategy& s : strategies()) {
        Draw own = draw_of(seed, round, s.name);
        all.push_back({m, {&s, random_options(own, s.options)}, {}});
      }
      all.push_back({m, random_composition(draw, 2), {}});
    }
  for (Question& q : all) q.answer = reference(models[q.model], q.plan);
  return all;
}

std::vector<Model> random_models(Draw& draw) {
  std::vector<Model> models;
  for (const bool device : {false, true}) {
    Profile profile = random_profile(draw, {.device = device});
    if (draw.coin()) profile.input = milliseconds(1);
    if (draw.coin()) profile.input_period = milliseconds(draw.whole(1, 20));
    models.emplace_back(profile, random_cluster(draw));
    Cluster faster = models.back().cluster();
    faster.network.bandwidth *= 1.5;
    models.push_back(models.back().on(faster));
    models.push_back(models.back().on(with_contention(faster)));
    models.push_back(models.back().on(random_cluster(draw)));
  }
  return models;
}

void check(const std::vector<Model>& models, const Question& q, Model::Scratch& scratch) {
  CAPTURE(text_of(q.plan));
  const Answer<Seconds> time = models[q.model].iteration(q.plan, scratch);
  REQUIRE(bool(time) == q.answer.reason.empty());
  if (time) CHECK(same(time->value(), q.answer.seconds));
  else CHECK(time.reason() == q.answer.reason);
}

Model small_model() {
  Draw draw(5);
  return {random_profile(draw, {.most_layers = 12, .device = true}), plain_cluster(8, BytesPerSecond(1e9))};
}

}  // namespace

TEST_CASE("the model's answers are those of predictions, whatever was asked before") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    Draw draw(seed);
    const std::vector<Model> models = random_models(draw);
    std::vector<Question> all = questions(draw, models, 3);
    Model::Scratch scratch;
    for (int pass = 0; pass < 2; ++pass) {
      std::shuffle(all.begin(), all.end(), draw.engine());
      for (const Question& q : all) check(models, q, scratch);
    }
    for (std::size_t i = 0; i < 40; ++i) {
      const Answer<Prediction> whole = models[all[i].model].prediction(all[i].plan);
      REQUIRE(bool(whole) == all[i].answer.reason.empty());
      if (whole) CHECK(same(whole->iteration.value(), all[i].answer.seconds));
    }
  }
}

TEST_CASE("threads that share a model get the same answers") {
  Draw draw(11);
  const std::vector<Model> models = random_models(draw);
  const std::vector<Question> all = questions(draw, models, 2);
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        Model::Scratch scratch;
        for (std::size_t i = 0; i < all.size(); ++i) {
          const Question& q = all[(i * 7 + t * 13) % all.size()];
          const Answer<Seconds> time = models[q.model].iteration(q.plan, scratch);
          wrong[t] += !same(time ? time->value() : std::nan(""), q.answer.seconds);
        }
      });
  }
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("many plans are answered in their order on any number of threads") {
  Draw draw(12);
  const Model model = small_model();
  std::vector<PlanSpec> plans;
  for (int i = 0; i < 1500; ++i) plans.push_back(random_composition(draw, 0));
  std::vector<double> one(plans.size()), several(plans.size()), all(plans.size());
  model.iterations(plans, one);
  model.iterations(plans, several, 3);
  model.iterations(plans, all, 0);
  CHECK(std::equal(one.begin(), one.end(), several.begin(), same));
  CHECK(std::equal(one.begin(), one.end(), all.begin(), same));
  for (std::size_t i = 0; i < plans.size(); i += 50) CHECK(same(one[i], reference(model, plans[i]).seconds));
}

TEST_CASE("one option takes many values; those that it cannot take have no time") {
  const Model model = small_model();
  PlanSpec plan = plan_spec_of("dear");
  std::vector<double> values{-1, std::nan(""), HUGE_VAL};
  for (double v = 1e3; v < 1e9; v *= 1.3) values.push_back(v);
  std::vector<double> seconds(values.size());
  model.iterations(plan, 0, values, seconds, 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i < 3) {
      CHECK(std::isnan(seconds[i]));
      continue;
    }
    plan.options[0] = values[i];
    CHECK(same(seconds[i], reference(model, plan).seconds));
  }
  std::vector<double> prefetch{1, 1.5, 2}, times(3);
  model.iterations(plan_spec_of("dear"), 2, prefetch, times);
  CHECK(!std::isnan(times[0]));
  CHECK(std::isnan(times[1]));  // a count is whole
  CHECK_THROWS_AS(model.iterations(plan_spec_of("wfbp"), 0, prefetch, times), InputError);
}

TEST_CASE("an option that is left open is named") {
  const Model model = small_model();
  Model::Scratch scratch;
  const Answer<Seconds> time = model.iteration(plan_spec_of("ddp(bucket=auto)"), scratch);
  REQUIRE(!time);
  CHECK(time.reason().find("'bucket'") != std::string::npos);
}

TEST_CASE("a collective that nobody knows is refused by name") {
  const Model model = small_model();
  Model::Scratch scratch;
  PlanSpec plan = plan_spec_of("ddp");
  plan.collective = "carrier_pigeon";
  const Answer<Seconds> time = model.iteration(plan, scratch);
  REQUIRE(!time);
  CHECK(time.reason().find("carrier_pigeon") != std::string::npos);
}

TEST_CASE("with slow workers the model's step is that of the slowest one, as predictions have it") {
  Draw draw(13);
  const Profile profile = random_profile(draw, {.device = true});
  Cluster cluster = plain_cluster(8, BytesPerSecond(1e9));
  const Model healthy(profile, cluster);
  cluster.stragglers.slow.push_back({1, 1.4, milliseconds(2), 0.5});
  const Model slow = healthy.on(cluster);
  Model::Scratch scratch;
  for (const char* text : {"ddp", "wfbp", "dear", "horovod", "p3"}) {
    CAPTURE(text);
    const PlanSpec plan = plan_spec_of(text);
    const Seconds before = *healthy.iteration(plan, scratch), after = *slow.iteration(plan, scratch);
    CHECK(after > before);
    CHECK(after == slow.prediction(plan)->iteration);
    CHECK(before == *healthy.iteration(plan, scratch));
  }
}

TEST_CASE("a step without gradients has a time under every plan") {
  Draw draw(16);
  for (const bool device : {false, true}) {
    Profile profile = random_profile(draw, {.most_layers = 6, .device = device});
    profile.tensors.clear();
    const Model model(profile, plain_cluster(8, BytesPerSecond(1e9)));
    Model::Scratch scratch;
    for (const Strategy& s : strategies())
      check({model}, {0, {&s, standard_options(s)}, reference(model, {&s, standard_options(s)})}, scratch);
  }
}

TEST_CASE("periods without a clock are those of the event-driven schedule") {
  Draw draw(14);
  int covered = 0;
  for (int i = 0; i < 600; ++i) {
    const Profile profile = random_profile(draw, {.device = draw.coin()});
    Cluster cluster = random_cluster(draw);
    const PlanSpec spec = random_composition(draw, 1);
    CAPTURE(text_of(spec));
    const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(spec));
    if (!cost) continue;
    const Answer<CommPlan> plan = comm_plan_of(spec, profile, cluster, *cost);
    if (!plan) continue;
    bool defined = true;
    for (const Transfer& t : plan->transfers) defined = defined && cost->defines(t.operation);
    if (!defined) continue;
    const TaskGraph graph = lowered(profile, *plan, *cost, cluster.contention, {.merge = draw.coin()});
    if (!SteadyPeriod::covers(graph)) continue;
    ++covered;
    CHECK(SteadyPeriod()(graph) == schedule(graph).period);
  }
  CHECK(covered > 200);
}

// --- Plans of one's own ---------------------------------------------------------------------------------------------

TEST_CASE("a plan written by hand is predicted as the strategy that would write it") {
  Draw draw(15);
  for (const bool device : {false, true}) {
    const Profile profile = random_profile(draw, {.most_layers = 10, .device = device});
    Cluster cluster = plain_cluster(8, BytesPerSecond(1e9), microseconds(20));
    if (device) cluster.stragglers.slow.push_back({1, 1.2, {}, 1});
    for (const auto& [text, discipline] :
         {std::pair("wfbp", Discipline::fifo), std::pair("ddp(bucket=0 B)", Discipline::in_order)}) {
      CommPlan plan;
      plan.channels.push_back({"net", discipline, Bytes(0)});
      for (std::uint32_t t = 0; t < profile.tensors.size(); ++t) {
        Transfer sent;
        sent.size = profile.tensors[t].size;
        sent.first_tensor = t, sent.tensors = 1;
        sent.priority = static_cast<std::int32_t>(t);
        plan.transfers.push_back(sent);
        plan.edges.push_back({{NodeKind::backward, profile.tensors[t].layer}, {NodeKind::transfer, t}});
        plan.edges.push_back({{NodeKind::transfer, t}, {NodeKind::update}});
      }
      const Answer<Prediction> own = predicted(profile, cluster, plan, "by hand");
      const Prediction built_in = *predicted(profile, cluster, plan_spec_of(text));
      REQUIRE(bool(own));
      CHECK(own->iteration == built_in.iteration);
      CHECK(own->interval_low == built_in.interval_low);
      CHECK(own->breakdown.exposed_communication == built_in.breakdown.exposed_communication);
      CHECK(own->bound == built_in.bound);
      CHECK(own->critical_path == built_in.critical_path);
      CHECK(own->messages == built_in.messages);
      const Answer<DetailedTimeline> shown = detailed_timeline(profile, cluster, plan);
      REQUIRE(bool(shown));
      CHECK(shown->timeline.start == detailed_timeline(profile, cluster, plan_spec_of(text))->timeline.start);
    }
  }
}

TEST_CASE("a plan of one's own has a name that outlives it and can be printed, but not planned again") {
  const Model model = small_model();
  std::optional<Prediction> kept;
  {
    const std::string name = "a name that is too long to be kept within a string";
    const StrategyInput input{model.profile(), model.cluster(), *communication_cost(model.cluster())};
    kept = *predicted(model.profile(), model.cluster(), all_reduced(input, per_tensor(model.profile())), name);
  }
  CHECK(text_of(kept->plan) == "a name that is too long to be kept within a string");
  CHECK(settings_of(kept->plan) == "");
  CHECK(requirements_of(kept->plan).empty());
  CHECK(!predicted(model.profile(), model.cluster(), kept->plan));
}

TEST_CASE("a flawed plan is inapplicable, and the flaw is the reason") {
  const Model model = small_model();
  CommPlan plan = all_reduced(model.profile(), per_tensor(model.profile()));
  const auto reason = [&] {
    const Answer<Prediction> answer = predicted(model.profile(), model.cluster(), plan, "flawed");
    REQUIRE(!answer);
    CHECK(answer.reason() == flaw_of(plan, model.profile()));
    return answer.reason();
  };
  plan.edges.pop_back();
  plan.edges.push_back({{NodeKind::transfer, 999}, common_update});
  CHECK(reason().find("transfer 999") != std::string::npos);
  plan.edges.pop_back();
  plan.period = 4'000'000'000u;
  CHECK(reason().find("repeats") != std::string::npos);
  plan.period = 1;
  plan.update_per_tensor = Seconds(std::nan(""));
  CHECK(reason().find("update") != std::string::npos);
  plan.update_per_tensor = {};
  plan.channels.resize(300);
  CHECK(reason().find("channels") != std::string::npos);
}

TEST_CASE("a plan of one's own on a collective that lacks its operations is inapplicable") {
  const Model model = small_model();
  const CommPlan plan = all_reduced(model.profile(), per_tensor(model.profile()));
  CHECK(bool(predicted(model.profile(), model.cluster(), plan, "own", "ring")));
  CHECK(!predicted(model.profile(), model.cluster(), plan, "own", "carrier_pigeon"));
}
