/*
 * stepcast.h: the library in plain C99, for C and for every language that can call C.
 *
 * From the bytes of a trace to step times:
 *
 *   stepcast_profile* profile;  stepcast_profile_of_sources(...)    what a training step costs, layer by layer
 *   stepcast_cluster* cluster;  stepcast_cluster_of_settings(...)   machines and links
 *   stepcast_model* model;      stepcast_model_of(...)              both, prepared once and asked thousands of times
 *
 * A plan is text as on the command line: "ddp", "dear(bucket=25 MiB)+powersgd(rank=4)@ring". Times are in seconds,
 * sizes in bytes, rates in bytes a second; the unit stands in the name.
 *
 * Handles are opaque. Whoever received one from this library frees it with the function of its kind, which does nothing
 * for a null pointer. A model keeps what it needs, so that its profile and cluster may be freed before it. A text that
 * a function returns as `const char*` belongs to the handle that was asked, and lives as long as that handle (of an
 * error: until its next use). Texts that callers pass are UTF-8 and end with a zero byte; none of them is kept.
 *
 * Functions that can fail return a stepcast_status and take, last, a stepcast_error that is filled with the reason, or
 * a null pointer from callers who do not want to know. When they fail, a result that is a handle is set to null and
 * all other results are left alone. A null pointer where a value is needed is an input error, never a crash. No C++
 * exception leaves a function.
 *
 * Settings are a list of "key=value" texts that ends with a null pointer, or a null pointer for none. Keys are named as
 * the flags of the command line, and take the same values: "per-node=4", "network=10GbE". An unknown key, one that is
 * given twice (unless it says that it may be) and a quantity without its unit are input errors.
 *
 * Threads: there is no global state. Profiles, clusters, models and texts never change: any number of threads may use
 * the same one at once. An error and a scratch are changed by every call that they are passed to: one thread at a time.
 * Nothing is printed, no file is opened.
 *
 * Stability: functions, status codes and keys stay; new ones may come. Structures that are filled by the library open
 * with their own size as the caller knows it, and grow only at their end, so that a program built with an older header
 * runs with a newer library. Not in here: sweeps, searches over layouts and reports (C++ and Python have them).
 */
#ifndef STEPCAST_STEPCAST_H
#define STEPCAST_STEPCAST_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define STEPCAST_API __attribute__((visibility("default")))
#else
#define STEPCAST_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a function returns; the same numbers as the exit codes of the program. */
typedef enum stepcast_status {
  STEPCAST_ANSWERED = 0,      /* and the results are filled */
  STEPCAST_INAPPLICABLE = 1,  /* the question is valid and has no answer: this plan cannot run on this cluster */
  STEPCAST_INPUT_ERROR = 2,   /* a text, a file or an argument cannot be used; the message says what was expected */
  STEPCAST_INTERNAL_ERROR = 3 /* out of memory, or a bug of stepcast: please report it with the input */
} stepcast_status;

/* "0.1.0": of the library that runs, which may be newer than this header. Lives for ever. */
STEPCAST_API const char* stepcast_version(void);

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* The reason of the last failure among the calls that it was passed to. One may serve any number of calls, so that a
 * loop over plans that cannot run neither allocates nor frees handles. */
typedef struct stepcast_error stepcast_error;

/* Null when there is no memory. */
STEPCAST_API stepcast_error* stepcast_error_new(void);
STEPCAST_API void stepcast_error_free(stepcast_error* error);
/* One line for people: "where: expected X, found Y; hint", or why a plan is inapplicable. Empty when the last call
 * succeeded, and for a null pointer. */
STEPCAST_API const char* stepcast_error_message(const stepcast_error* error);
/* The parts of an input error; each may be empty. `where`: a file with its position, a JSON pointer, or a key. */
STEPCAST_API const char* stepcast_error_where(const stepcast_error* error);
STEPCAST_API const char* stepcast_error_expected(const stepcast_error* error);
STEPCAST_API const char* stepcast_error_found(const stepcast_error* error);
STEPCAST_API const char* stepcast_error_hint(const stepcast_error* error);

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

/* A text that a function made: JSON with a "schema" key and SI numbers, as `stepcast ... --json` writes it. */
typedef struct stepcast_text stepcast_text;

/* Ends with a zero byte; empty for a null pointer. */
STEPCAST_API const char* stepcast_text_data(const stepcast_text* text);
/* In bytes, without the zero at its end. */
STEPCAST_API size_t stepcast_text_size(const stepcast_text* text);
STEPCAST_API void stepcast_text_free(stepcast_text* text);

/* ---- Profiles ---------------------------------------------------------------------------------------------------- */

/* What one training step costs one worker, layer by layer, and how well the traced step can be rebuilt from it. */
typedef struct stepcast_profile stepcast_profile;

/* The bytes of one file and the name to use for it in messages. Will not change. */
typedef struct stepcast_source {
  const char* name;
  const void* bytes; /* as stored: plain or gzip */
  size_t size;
} stepcast_source;

/* The profile of the traces of a run's ranks (or of the parts of a recording, an archive of them, a trace and its
 * execution trace, a table of layers), or the one profile, written by stepcast, that is the only source.
 * Settings:
 *   model=resnet50     shipped list of parameters, for traces without shapes
 *   parameters=350M    how many there are, for traces without shapes
 *   batch=32           samples a step of one worker; else from the shapes
 *   step=204ms         how long a step takes without the profiler; the host's work is scaled to it
 *   strict=yes         refuse damaged input instead of repairing it (yes or no)
 *   check=no           leave out the self-check, which takes about as long as the reading (yes or no)
 *   recorded=yes       all that is asked of the profile is answered by the recorded step, whose messages of gradients
 *                      are exchanged, also where the model of its layers describes the job (yes or no)
 *   kernels={...}      text of a table of rules for the names of kernels, in front of the shipped ones */
STEPCAST_API stepcast_status stepcast_profile_of_sources(const stepcast_source* sources, size_t count,
                                                         const char* const* settings, stepcast_profile** profile,
                                                         stepcast_error* error);
STEPCAST_API void stepcast_profile_free(stepcast_profile* profile);

/* The profile as JSON; stepcast_profile_of_sources reads it back to the same values. */
STEPCAST_API stepcast_status stepcast_profile_json(const stepcast_profile* profile, stepcast_text** json,
                                                   stepcast_error* error);
/* The self-check as JSON: each traced step rebuilt and compared, as `stepcast replay --json` writes it. */
STEPCAST_API stepcast_status stepcast_profile_check_json(const stepcast_profile* profile, stepcast_text** json,
                                                         stepcast_error* error);
/* Why predictions from this profile should not be trusted; empty when there is no such reason. */
STEPCAST_API const char* stepcast_profile_caution(const stepcast_profile* profile);
/* What was repaired and left out while reading, a line each; empty when nothing was. */
STEPCAST_API const char* stepcast_profile_notes(const stepcast_profile* profile);

/* ---- Recordings, without a cluster ------------------------------------------------------------------------------- */

/* Where the time of a traced step goes, and what to do about it, as JSON ("stepcast.explanation/1"): what
 * `stepcast TRACE --json` writes. Of the traces of a run's ranks.
 * Settings: parameters, strict and kernels, as of stepcast_profile_of_sources. */
STEPCAST_API stepcast_status stepcast_explanation_json(const stepcast_source* sources, size_t count,
                                                       const char* const* settings, stepcast_text** json,
                                                       stepcast_error* error);
/* For which rank the others wait, in which steps, and what held it up, as JSON ("stepcast.lateness/1"). Of the traces
 * of two ranks of a run or more. Settings: strict and kernels. */
STEPCAST_API stepcast_status stepcast_lateness_json(const stepcast_source* sources, size_t count,
                                                    const char* const* settings, stepcast_text** json,
                                                    stepcast_error* error);
/* What takes longer in the second of two recordings, and whether that is noise, as JSON ("stepcast.difference/1"). Of
 * one trace each, the same rank of two runs. Settings: strict and kernels. */
STEPCAST_API stepcast_status stepcast_difference_json(const stepcast_source* before, const stepcast_source* after,
                                                      const char* const* settings, stepcast_text** json,
                                                      stepcast_error* error);

/* ---- Clusters ---------------------------------------------------------------------------------------------------- */

/* Machines, their links, and what is known of the collectives on them. */
typedef struct stepcast_cluster stepcast_cluster;

/* A cluster in a few words. Settings:
 *   cluster=NAME         one that stepcast ships, 8xNAME for so many machines of it; without it `workers` and `network`
 *                        are needed
 *   workers=16           in all
 *   per-node=4           devices in a machine (without it: 1)
 *   network=10GbE        bandwidth between machines, or the name of a shipped cluster's network
 *   level=rail:32; spine:16, oversubscribed=2   levels of that network, from the inside out
 *   background=30%       what other jobs take of its outermost level, or of those that are named: spine=30%
 *   connection=10Gb/s    what one connection reaches: 4 x 10Gb/s of as many over each card
 *   inside=250GB/s       bandwidth between the devices of a machine
 *   servers=4            machines that may serve parameters: 4 x 25Gb/s with a rate of each
 *   collective=ring      all-reduce algorithm of plans that name none; of nccl:
 *   nccl-algo=Tree, nccl-proto=Simple   what the variables NCCL_ALGO and NCCL_PROTO would force
 *   device-memory=40GiB  of one device
 *   slow-worker=1.3, late-worker=5 ms, degraded-link=0.5, jitter=0.05, switch=switchml   what is out of the ordinary
 *   loss=0.001, stalls=1e-6, rto=200 ms   share of the packets that are lost, time-outs per packet, the first one
 */
STEPCAST_API stepcast_status stepcast_cluster_of_settings(const char* const* settings, stepcast_cluster** cluster,
                                                          stepcast_error* error);
/* The cluster in `json` (of `size` bytes, called `name` in messages), changed by settings as above. */
STEPCAST_API stepcast_status stepcast_cluster_of_json(const char* name, const char* json, size_t size,
                                                      const char* const* settings, stepcast_cluster** cluster,
                                                      stepcast_error* error);
STEPCAST_API void stepcast_cluster_free(stepcast_cluster* cluster);

/* The cluster as JSON; stepcast_cluster_of_json reads it back to the same values. */
STEPCAST_API stepcast_status stepcast_cluster_json(const stepcast_cluster* cluster, stepcast_text** json,
                                                   stepcast_error* error);

/* ---- Models ------------------------------------------------------------------------------------------------------ */

/* A profile on a cluster, prepared once. */
typedef struct stepcast_model stepcast_model;

/* Where the cluster's device is known and not the traced one, it is an input error unless one of these settings says
 * what to assume:
 *   same-device=yes      keep the traced compute times (yes or no)
 *   faster-compute=2     divide them by this factor
 * And what is asked of the job:
 *   what=amp             what-ifs in order, made before anything is predicted: "batch(to=64)+amp", or what feeds the
 *                        steps: "input(dataset=146GB, samples=1281167, storage=530MB/s, prep=199, workers=24)"
 *   iterations=100000    of a run whose duration predictions tell, too, the plan's warm-up among them
 *   global-batch=512     samples a step on all devices, shared out by layouts; without it the worker's batch times the
 *                        workers */
STEPCAST_API stepcast_status stepcast_model_of(const stepcast_profile* profile, const stepcast_cluster* cluster,
                                               const char* const* settings, stepcast_model** model,
                                               stepcast_error* error);
/* The same profile, with the same assumption, on another cluster of the same devices; cheaper than a new model. */
STEPCAST_API stepcast_status stepcast_model_on(const stepcast_model* model, const stepcast_cluster* cluster,
                                               stepcast_model** other, stepcast_error* error);
STEPCAST_API void stepcast_model_free(stepcast_model* model);

/* The buffers of one thread: what one plan leaves for the next. May be used with any model. */
typedef struct stepcast_scratch stepcast_scratch;

/* Null when there is no memory. */
STEPCAST_API stepcast_scratch* stepcast_scratch_new(void);
STEPCAST_API void stepcast_scratch_free(stepcast_scratch* scratch);

/* The step time of one plan, for loops that ask for one after the other. `scratch` may be null, which is slower. */
STEPCAST_API stepcast_status stepcast_model_iteration(const stepcast_model* model, const char* plan,
                                                      stepcast_scratch* scratch, double* iteration_s,
                                                      stepcast_error* error);
/* The step times of `count` plans; NaN for those that cannot run here. A text that is no plan is an input error whose
 * `where` starts with its position ("plans[3]"), and no time is written. `threads`: 0 for as many as there are cores.
 * The times do not depend on their number; plans that divide the model, and those of a recorded step, are answered one
 * after the other. */
STEPCAST_API stepcast_status stepcast_model_iterations(const stepcast_model* model, const char* const* plans,
                                                       size_t count, double* iteration_s, unsigned threads,
                                                       stepcast_error* error);
/* The step times of one plan with the option `option` of its strategy ("bucket") set to each of `count` values (SI:
 * bytes, seconds); NaN for values out of the option's range and plans that cannot run here. */
STEPCAST_API stepcast_status stepcast_model_iterations_over(const stepcast_model* model, const char* plan,
                                                            const char* option, const double* values, size_t count,
                                                            double* iteration_s, unsigned threads,
                                                            stepcast_error* error);

/* The step time of one plan, and what it is made of. The plan may divide the model: "layout(tp=2)/ddp"; then compute
 * holds recomputation and update, and exposed communication all collectives and sends that compute waits for. Along the
 * stream that computes, the step is the sum of compute, exposed communication, codec, input stall, bubble and idle. Set
 * struct_size to sizeof(stepcast_prediction) before the call: so much is written and no more. Fields that an older
 * library does not know become 0. */
typedef struct stepcast_prediction {
  size_t struct_size;
  double iteration_s;
  double interval_low_s, interval_high_s; /* 80 % interval of the mean step */
  double step_spread_s;                   /* standard deviation from step to step */
  double step_p50_s, step_p99_s;          /* the steps that half and 99 of 100 do not exceed */
  double compute_s;                       /* layers, update, host time that the device waits for */
  double exposed_communication_s;         /* compute waits for a transfer */
  double hidden_communication_s;          /* transfers under compute: outside the sum */
  double codec_s;                         /* compressing and decompressing */
  double input_stall_s;                   /* waiting for the batch */
  double bubble_s;                        /* of a pipeline */
  double idle_s;                          /* the rest: timers, a late start */
  double throughput_samples_per_s;        /* of all workers; 0 when the batch is unknown */
  double memory_bytes;                    /* of a worker: parameters, gradients, optimizer, activations, buffers */
  int64_t messages;                       /* transfers a step */
  int64_t steady;                         /* 1: the steps have settled to this time; 0: they still change */
  double run_s;                           /* of the model's iterations, warm-up included; 0 when none were given */
  double warm_up_s;                       /* of these, where gradients travel in another way at first */
  double prep_stall_s;                    /* waiting for the preparation of batches; 0 where nothing feeds the step */
  double fetch_stall_s;                   /* the same for storage and network */
  double sufficient_cache;                /* share of the data set from which on more cache does not help */
  int64_t sufficient_workers;             /* loader workers of a machine from which on more do not help */
} stepcast_prediction;

STEPCAST_API stepcast_status stepcast_model_predict(const stepcast_model* model, const char* plan,
                                                    stepcast_prediction* prediction, stepcast_error* error);
/* The whole answer as JSON: also what binds, the critical path and warnings, as `stepcast predict --json` writes it. */
STEPCAST_API stepcast_status stepcast_model_prediction_json(const stepcast_model* model, const char* plan,
                                                            stepcast_text** json, stepcast_error* error);
/* Every plan that the cluster can run, tuned and ranked, as JSON: as `stepcast recommend --json` writes it.
 * Inapplicable when no plan can run; the JSON, which says why, is made all the same. Settings:
 *   allow=lossy,stale,periodic   plans that change the arithmetic of training, too
 *   plan=TEXT                    exactly this plan instead of all; may be given several times
 *   tune=no                      leave options as they are (yes or no)
 *   search=bayesian              tune as a run-time tuner would, in 10 or 15 trials (grid or bayesian)
 *   sensitivity=no               leave out how far the answer holds (yes or no)
 *   by-step=yes                  one list by step time, whatever a plan needs besides PyTorch and workers (yes or no)
 *   iterations=100000            rank by the duration of so many, warm-up included */
STEPCAST_API stepcast_status stepcast_model_recommendation_json(const stepcast_model* model,
                                                                const char* const* settings, stepcast_text** json,
                                                                stepcast_error* error);

#ifdef __cplusplus
}
#endif

#endif
