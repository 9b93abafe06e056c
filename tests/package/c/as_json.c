/*
 * as_json TRACE WORKERS PER_NODE NETWORK: what a server passes on to those who ask it: a profile, its self-check, a
 * cluster, a prediction and a recommendation as JSON, the reasons of a refusal one by one, and the step times of many
 * plans. Prints what it asked and how long the answers are; fails where two ways to one answer differ.
 *
 *   cc as_json.c $(pkg-config --cflags --libs stepcast) -o as_json
 */
#include <stepcast/stepcast.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS 3

static stepcast_error* error;

static void require(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, stepcast_error_message(error));
  exit(STEPCAST_INTERNAL_ERROR);
}
static void succeeded(stepcast_status status, const char* what) { require(status == STEPCAST_ANSWERED, what); }

/* Passes a text on, here to nobody, and frees it. */
static void send(const char* name, stepcast_text* json) {
  require(stepcast_text_size(json) == strlen(stepcast_text_data(json)), name);
  require(strstr(stepcast_text_data(json), "\"schema\"") != NULL, name);
  printf("%s: JSON of %lu bytes\n", name, (unsigned long)stepcast_text_size(json));
  stepcast_text_free(json);
}

static stepcast_profile* profile_of(const char* path) {
  static char bytes[1 << 24];
  stepcast_profile *traced = NULL, *profile = NULL;
  stepcast_text *json = NULL, *check = NULL;
  stepcast_source source;
  FILE* file = fopen(path, "rb");
  require(file != NULL, path);
  source.name = path;
  source.bytes = bytes;
  source.size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  succeeded(stepcast_profile_of_sources(&source, 1, NULL, &traced, error), "profile");
  if (*stepcast_profile_notes(traced)) printf("notes: %s\n", stepcast_profile_notes(traced));
  succeeded(stepcast_profile_check_json(traced, &check, error), "self-check");
  send("self-check", check);
  /* What is asked of recordings alone. */
  succeeded(stepcast_explanation_json(&source, 1, NULL, &json, error), "explanation");
  send("explanation", json);
  succeeded(stepcast_difference_json(&source, &source, NULL, &json, error), "difference");
  send("difference", json);
  require(stepcast_lateness_json(&source, 1, NULL, &json, error) == STEPCAST_INPUT_ERROR, "lateness of one rank");
  /* What was written can be read: the profile from here on. */
  succeeded(stepcast_profile_json(traced, &json, error), "profile");
  source.name = "profile.json";
  source.bytes = stepcast_text_data(json);
  source.size = stepcast_text_size(json);
  succeeded(stepcast_profile_of_sources(&source, 1, NULL, &profile, error), "profile from JSON");
  send("profile", json);
  stepcast_profile_free(traced);
  return profile;
}

static stepcast_cluster* cluster_of(char** words) {
  char workers[64], per_node[64], network[128];
  const char* settings[] = {workers, per_node, network, NULL};
  stepcast_cluster *given = NULL, *cluster = NULL;
  stepcast_text* json = NULL;
  snprintf(workers, sizeof workers, "workers=%s", words[2]);
  snprintf(per_node, sizeof per_node, "per-node=%s", words[3]);
  snprintf(network, sizeof network, "network=%s", words[4]);
  succeeded(stepcast_cluster_of_settings(settings, &given, error), "cluster");
  succeeded(stepcast_cluster_json(given, &json, error), "cluster");
  succeeded(stepcast_cluster_of_json("cluster.json", stepcast_text_data(json), stepcast_text_size(json), NULL, &cluster,
                                     error),
            "cluster from JSON");
  send("cluster", json);
  stepcast_cluster_free(given);
  return cluster;
}

static void ask(const stepcast_model* model) {
  const char* const plans[PLANS] = {"ddp", "dear(bucket=4 MiB)", "wfbp"};
  const char* const quickly[] = {"tune=no", "sensitivity=no", NULL};
  double together[PLANS], alone = 0;
  stepcast_scratch* scratch = stepcast_scratch_new();
  stepcast_text* json = NULL;
  int i;
  succeeded(stepcast_model_iterations(model, plans, PLANS, together, 0, error), "step times");
  for (i = 0; i < PLANS; ++i) {
    succeeded(stepcast_model_iteration(model, plans[i], scratch, &alone, error), plans[i]);
    require(alone == together[i], plans[i]);
    printf("%s: %.15g s\n", plans[i], alone);
  }
  stepcast_scratch_free(scratch);
  succeeded(stepcast_model_prediction_json(model, plans[0], &json, error), "prediction");
  send("prediction", json);
  succeeded(stepcast_model_recommendation_json(model, quickly, &json, error), "recommendation");
  send("recommendation", json);
  require(stepcast_model_prediction_json(model, "ddp(buket=1 MiB)", &json, error) == STEPCAST_INPUT_ERROR, "refusal");
  printf("where: %s, expected: %s, found: %s, hint: %s\n", stepcast_error_where(error), stepcast_error_expected(error),
         stepcast_error_found(error), stepcast_error_hint(error));
}

int main(int count, char** words) {
  stepcast_profile* profile;
  stepcast_cluster* cluster;
  stepcast_model* model = NULL;
  if (count < 5) {
    fputs("usage: as_json TRACE WORKERS PER_NODE NETWORK\n", stderr);
    return STEPCAST_INPUT_ERROR;
  }
  error = stepcast_error_new();
  printf("stepcast %s\n", stepcast_version());
  profile = profile_of(words[1]);
  cluster = cluster_of(words);
  succeeded(stepcast_model_of(profile, cluster, NULL, &model, error), "model");
  ask(model);
  stepcast_model_free(model);
  stepcast_cluster_free(cluster);
  stepcast_profile_free(profile);
  stepcast_error_free(error);
  return STEPCAST_ANSWERED;
}
