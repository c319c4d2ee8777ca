/* command.h - what main.c and the sub-commands share: a call, output, progress, reports. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/options.h"
#include "comm/comm.h"
#include "page/units.h"
#include "train/job.h"

#include <jansson.h>
#include <stdio.h>

typedef struct cli_progress {
    const model_kind *kind; /* of what is trained */
    bool live;              /* standard error is a terminal that can redraw a line */
    bool quiet, verbose;
    size_t drawn;    /* characters of the line that is on the terminal */
    double drawn_at; /* seconds */
    double waited;   /* for a plan: since when, or since the last line that said so; 0: not yet */
    double patience; /* seconds until the next such line */
} cli_progress;

typedef struct cli_call {
    ebb_ctx *ctx;
    comm_link *link;   /* of the processes that mpirun started; NULL: it started none */
    const device *dev; /* that --device opened; NULL: none was */
    cli_settings settings;
    const char **words; /* arguments that are no options */
    int n_words;
    cli_progress progress;
} cli_call;

/* One function a command; each in the file named after it. */
ebb_status ebb__cli_train(cli_call *call);
ebb_status ebb__cli_plan(cli_call *call);
ebb_status ebb__cli_bench(cli_call *call);
ebb_status ebb__cli_eval(cli_call *call); /* use.c */
ebb_status ebb__cli_bleu(cli_call *call); /* score.c */
ebb_status ebb__cli_chrf(cli_call *call); /* score.c */
ebb_status ebb__cli_generate(cli_call *call);
ebb_status ebb__cli_predict(cli_call *call);
ebb_status ebb__cli_average(cli_call *call);
ebb_status ebb__cli_inspect(cli_call *call);
ebb_status ebb__cli_data_grammar(cli_call *call);
ebb_status ebb__cli_data_dates(cli_call *call);
ebb_status ebb__cli_data_plan(cli_call *call);
ebb_status ebb__cli_data_build(cli_call *call);
ebb_status ebb__cli_data_codes(cli_call *call);
ebb_status ebb__cli_tune(cli_call *call);
ebb_status ebb__cli_decode(cli_call *call);
ebb_status ebb__cli_report(cli_call *call);
ebb_status ebb__cli_devices(cli_call *call);

/* ---- devices.c ---- */

/* The device of the settings, closed by main() after all else. */
ebb_status ebb__cli_open_device(cli_call *call) EBB_MUST_CHECK;

/* ---- output.c ---- */

/* Makes sure that descriptors 0 to 2 are taken, so that no file opened later is mistaken for
 * standard output; writing to one that was closed fails. */
void ebb__cli_guard_streams(void);
/* EBB_IO if something did not reach standard output; *quiet if that is because the reader has gone,
 * which is not worth a message. */
ebb_status ebb__cli_flush(ebb_ctx *ctx, bool *quiet) EBB_MUST_CHECK;
/* A dump of --dump-after to the FILE `file`. */
void ebb__cli_print_graph(void *file, const char *pass, const char *text);
/* Prints the object and drops the reference; NULL is EBB_NOMEM. */
ebb_status ebb__cli_print_json(ebb_ctx *ctx, json_t *object) EBB_MUST_CHECK;
json_t *ebb__cli_json_real(double value);    /* null if not finite */
json_t *ebb__cli_json_bytes(uint64_t value); /* what does not fit 63 bits: the most that does */
json_t *ebb__cli_json_hash(uint64_t value);  /* 16 hexadecimal digits */

/* ---- ranks.c ---- */

/* Joins the processes that mpirun started for a command that they can share; several for another
 * command are EBB_USAGE. */
ebb_status ebb__cli_join_ranks(cli_call *call, option_command command) EBB_MUST_CHECK;
/* Compares what must be the same in all processes: version, command, settings as they were given,
 * files that all read. */
ebb_status ebb__cli_greet_ranks(cli_call *call, option_command command) EBB_MUST_CHECK;
/* What the settings of the first process have become by what it alone reads, the images and the run
 * of --init, those of all others become. */
ebb_status ebb__cli_share_settings(cli_call *call) EBB_MUST_CHECK;
/* EBB_USAGE if --network is none, or there is no virtual clock that it could be of. */
ebb_status ebb__cli_check_network(const cli_call *call) EBB_MUST_CHECK;
/* Whether this process is one of several and not the first, which speaks for all. */
bool ebb__cli_is_follower(const cli_call *call);
/* Whether all processes end with the status, so that the first one has it to tell. */
bool ebb__cli_end_together(const cli_call *call, ebb_status status);
/* Ends what they share: all of them, where one failed, and one of them says why unless `quiet`. The
 * status: a process may be lost at the very end. */
ebb_status ebb__cli_leave_ranks(cli_call *call, ebb_status status, bool quiet,
                                void (*say)(const char *message)) EBB_MUST_CHECK;

/* ---- forecast.c ---- */

/* `ebb plan` with --ranks: what so many processes would take. Its settings are resolved. */
ebb_status ebb__cli_forecast(cli_call *call);
/* EBB_USAGE if something is asked for that only a forecast has. */
ebb_status ebb__cli_need_ranks(const cli_settings *settings) EBB_MUST_CHECK;

/* ---- run.c ---- */

/* Settings of the run in `dir`, with what was asked for on this command line on top. `run` is
 * initialised for the kind that is wanted; a run of another kind is EBB_MODEL. */
ebb_status ebb__cli_load_run(const cli_settings *asked, const char *dir,
                             cli_settings *run) EBB_MUST_CHECK;

/* Of settings that start from the weights of a run (--init DIR): model options that were not given
 * are those of the run; where it is gone, of what was started from it in `out_dir` (may be NULL).
 * Words that are taken (--vocab DIR) must be of the same tokens. */
ebb_status ebb__cli_take_model(cli_settings *settings, const char *out_dir) EBB_MUST_CHECK;

/* ---- report.c ---- */

typedef struct cli_line {
    char text[128];
} cli_line;
cli_line ebb__cli_model(const train_settings *settings); /* what is trained, in a few words */
void ebb__cli_print_plan(FILE *file, const train_settings *settings, const ebb_plan *plan);
json_t *ebb__cli_plan_json(const ebb_plan *plan); /* NULL: no memory */
double ebb__cli_rate(const ebb_plan *plan);       /* predicted: units of the kind a second */
/* What plans and benchmarks say alike, as keys of `to`: bytes by form and, of a kind that has
 * chunks of images, how many a chunk has. False: no memory. */
bool ebb__cli_add_forms(json_t *to, const model_kind *kind, const plan_form *forms, int32_t n,
                        int32_t chunk_images);

/* ---- layers.c ---- */

/* A table of the layers, if the kind has one; `all`: a long net is not told shorter. Both while the
 * plan has its graph. */
ebb_status ebb__cli_print_layers(FILE *file, const train_settings *settings, const ebb_plan *plan,
                                 bool all) EBB_MUST_CHECK;
/* All layers; NULL: no memory for the list. */
ebb_status ebb__cli_layers_json(const train_settings *settings, const ebb_plan *plan,
                                json_t **out) EBB_MUST_CHECK;

/* ---- classes.c ---- */

/* What an evaluation found class by class: a table of all or, of many, of the worst; what is taken
 * for what. */
void ebb__cli_print_classes(FILE *file, const kind_classes *classes);
/* The same as keys of `to`; false: no memory. */
bool ebb__cli_classes_json(const kind_classes *classes, json_t *to);

/* ---- fit.c ---- */

/* Of --batch auto makes a number, said on standard error. With `dir` the run in that folder, if
 * there is one, decides. */
ebb_status ebb__cli_fit(cli_call *call, const char *dir) EBB_MUST_CHECK;
/* EBB_USAGE with --batch auto. */
ebb_status ebb__cli_refuse_auto(ebb_ctx *ctx, const train_settings *run) EBB_MUST_CHECK;

/* ---- curve.c ---- */

void ebb__cli_print_curve(FILE *file, const char *model, const ebb_plan *plan);
json_t *ebb__cli_curve_json(const ebb_plan *plan); /* NULL: no memory */

/* ---- explain.c ---- */

/* Nothing, where there are none. */
void ebb__cli_print_decisions(FILE *file, const ebb_plan *plan);
void ebb__cli_print_products(FILE *file, const ebb_plan *plan);
json_t *ebb__cli_products_json(const ebb_plan *plan); /* NULL: no memory */
/* Forms that the plan's device cannot have, though the settings allow them; nothing where there are
 * none. */
void ebb__cli_print_excluded(FILE *file, const train_settings *s, const ebb_plan *plan);
json_t *ebb__cli_excluded_json(const train_settings *s, const ebb_plan *plan); /* NULL: no memory */
typedef struct cli_name {
    char text[64];
} cli_name;
/* "trans_b groups=4": the integers of a product that are not 0. */
cli_name ebb__cli_direction(uint16_t op, const cost_key *key);
cli_name ebb__cli_form(const device_kernel *kernel, int32_t form); /* in the kernel's words */
/* m, n, k, the op's integers by name, threads; NULL: no memory. */
json_t *ebb__cli_key_json(const device *dev, uint16_t op, const cost_key *key);
/* The forms with seconds and GFLOP/s; seconds < 0 are null. */
json_t *ebb__cli_forms_json(const device_kernel *kernel, const cost_key *key,
                            const cost_form *forms, int32_t n);
double ebb__cli_gflops(const cost_key *key, double seconds);

/* ---- program.c ---- */

/* Every instruction of every program. */
ebb_status ebb__cli_print_programs(FILE *file, ebb_plan *plan) EBB_MUST_CHECK;
ebb_status ebb__cli_programs_json(ebb_plan *plan, json_t **out) EBB_MUST_CHECK;

/* ---- tune.c ---- */

/* Where measured times are kept, and how long a command may spend on measuring: into `run`. */
void ebb__cli_find_tuning(cli_settings *settings, option_command command);

/* ---- profile.c ---- */

void ebb__cli_print_profile(FILE *file, const run_profile *profile, int threads);
json_t *ebb__cli_profile_json(const run_profile *profile); /* NULL: no memory */

/* ---- progress.c ---- */

void ebb__cli_progress_init(cli_progress *progress, const cli_settings *settings);
/* Removes the live line, so that something else can be printed. */
void ebb__cli_progress_clear(cli_progress *progress);
void ebb__cli_progress_show(cli_progress *progress, const job_progress *now, bool tick);
void ebb__cli_progress_sample(cli_progress *progress, const job_sample *sample);
/* How many programs are planned, of many, or images made; an ebb_progress_fn whose user is a
 * cli_progress. Where no line can be redrawn, one now and then, if it takes long. */
void ebb__cli_progress_plan(void *user, const char *what, uint64_t done, uint64_t total);
void ebb__cli_log(void *user, ebb_log_level level, const char *line); /* user: cli_progress */

/* ---- stop.c ---- */

/* From here on the first SIGINT or SIGTERM only asks to stop; the second one ends the process. */
void ebb__cli_catch_signals(void);
/* Of a process that follows another one, which is asked to stop and says so. */
void ebb__cli_ignore_signals(void);
bool ebb__cli_stop_asked(void);

#endif
