/*
 * best_bucket TRACE WORKERS PER_NODE NETWORK OTHER_NETWORK: which bucket size is best for a training job, out of two
 * thousand for each of two strategies, and what the best one gives. The same program stands beside this one in C++ and
 * in Python.
 *
 *   cc best_bucket.c $(pkg-config --cflags --libs stepcast) -o best_bucket
 */
#include <stepcast/stepcast.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS 2000

/* All that has to be freed, so that every way out frees it. */
typedef struct job {
  stepcast_error* error;
  void* bytes;
  stepcast_profile* profile;
  stepcast_cluster *cluster, *other_cluster;
  stepcast_model *model, *elsewhere;
} job;

static void* bytes_of_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  char* bytes = NULL;
  long length = -1;
  if (file && fseek(file, 0, SEEK_END) == 0) length = ftell(file);
  if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) bytes = malloc((size_t)length + 1);
  if (bytes) *size = fread(bytes, 1, (size_t)length, file);
  if (file) fclose(file);
  return bytes;
}

static stepcast_status cluster_of(char** words, const char* network, stepcast_cluster** cluster,
                                  stepcast_error* error) {
  char workers[64], per_node[64], link[128];
  const char* settings[] = {workers, per_node, link, NULL};
  snprintf(workers, sizeof workers, "workers=%s", words[2]);
  snprintf(per_node, sizeof per_node, "per-node=%s", words[3]);
  snprintf(link, sizeof link, "network=%s", network);
  return stepcast_cluster_of_settings(settings, cluster, error);
}

/* Prints the best bucket size of a strategy; its number of seconds, or NaN where it cannot run. */
static stepcast_status best_of(const job* job, const char* strategy, double* bucket, double* least) {
  double buckets[BUCKETS], seconds[BUCKETS];
  stepcast_status status;
  int i;
  for (i = 0; i < BUCKETS; ++i) buckets[i] = 32768.0 * (i + 1);
  status = stepcast_model_iterations_over(job->model, strategy, "bucket", buckets, BUCKETS, seconds, 1, job->error);
  if (status != STEPCAST_ANSWERED) return status;
  *least = NAN;
  for (i = 0; i < BUCKETS; ++i)
    if (!isnan(seconds[i]) && (isnan(*least) || seconds[i] < *least)) {
      *bucket = buckets[i];
      *least = seconds[i];
    }
  if (!isnan(*least))
    printf("%s: of %d bucket sizes %.15g bytes is the best, %.15g s\n", strategy, BUCKETS, *bucket, *least);
  return status;
}

static stepcast_status best_bucket(job* job, char** words) {
  const char* const strategies[] = {"ddp", "dear"};
  const char* best = NULL;
  double least = NAN, best_size = 0, step = 0;
  char plan[64];
  stepcast_source trace;
  stepcast_prediction answer;
  stepcast_status status;
  int i;

  /* What a step costs, and whether the model can rebuild the steps that it was told. */
  trace.name = words[1];
  trace.bytes = job->bytes = bytes_of_file(words[1], &trace.size);
  if (!trace.bytes) {
    fprintf(stderr, "%s cannot be read\n", words[1]);
    exit(STEPCAST_INPUT_ERROR);
  }
  if ((status = stepcast_profile_of_sources(&trace, 1, NULL, &job->profile, job->error))) return status;
  if (*stepcast_profile_caution(job->profile)) printf("caution: %s\n", stepcast_profile_caution(job->profile));
  if ((status = cluster_of(words, words[4], &job->cluster, job->error))) return status;
  if ((status = stepcast_model_of(job->profile, job->cluster, NULL, &job->model, job->error))) return status;

  for (i = 0; i < 2; ++i) {
    double bucket = 0, seconds = NAN;
    if ((status = best_of(job, strategies[i], &bucket, &seconds))) return status;
    if (isnan(seconds) || seconds >= least) continue; /* false while `least` is NaN */
    best = strategies[i];
    best_size = bucket;
    least = seconds;
  }
  if (!best) return STEPCAST_INAPPLICABLE;

  snprintf(plan, sizeof plan, "%s(bucket=%.0f B)", best, best_size);
  answer.struct_size = sizeof answer;
  if ((status = stepcast_model_predict(job->model, plan, &answer, job->error))) return status;
  printf("best: %s, step %.15g s (80 %% interval %.15g to %.15g), of which %.15g s wait for %ld messages\n", best,
         answer.iteration_s, answer.interval_low_s, answer.interval_high_s, answer.exposed_communication_s,
         (long)answer.messages);

  /* The same on another network: what a network does not change is not computed again. */
  if ((status = cluster_of(words, words[5], &job->other_cluster, job->error))) return status;
  if ((status = stepcast_model_on(job->model, job->other_cluster, &job->elsewhere, job->error))) return status;
  if ((status = stepcast_model_iteration(job->elsewhere, plan, NULL, &step, job->error))) return status;
  printf("on %s: %.15g s\n", words[5], step);
  return STEPCAST_ANSWERED;
}

int main(int count, char** words) {
  job job = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
  stepcast_status status;
  if (count != 6) {
    fputs("usage: best_bucket TRACE WORKERS PER_NODE NETWORK OTHER_NETWORK\n", stderr);
    return STEPCAST_INPUT_ERROR;
  }
  job.error = stepcast_error_new();
  status = best_bucket(&job, words);
  if (status != STEPCAST_ANSWERED) fprintf(stderr, "%s\n", stepcast_error_message(job.error));
  stepcast_model_free(job.elsewhere);
  stepcast_model_free(job.model);
  stepcast_cluster_free(job.other_cluster);
  stepcast_cluster_free(job.cluster);
  stepcast_profile_free(job.profile);
  stepcast_error_free(job.error);
  free(job.bytes);
  return (int)status;
}
