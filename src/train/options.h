/* options.h - options that every kind of model has, as entries for its list. What differs between
 * kinds is an argument. The order of a list is the order of --help and of a run's `config`.
 *
 * Ranges end where a size stops making sense, far below where products of sizes could overflow. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include "train/option.h"
#include "train/settings.h"

#define MODEL (STEP | FOR_TUNE | FOR_DATA_PLAN)
#define STEP (FOR_TRAIN | FOR_PLAN | FOR_BENCH)
#define RUN (FOR_TRAIN | FOR_PLAN)
#define TEXTS (FOR_DATA_PLAN | FOR_DATA_BUILD)
#define MATH (OPTION_MATH | OPTION_SHOWN)
#define AT(field) offsetof(train_settings, field)
/* A member of the kind's own settings, of this type. */
#define OWN(type, field) (offsetof(train_settings, own) + offsetof(type, field))
#define ANY                                                                                        \
    { 0, 0, false, false }
#define RANGE(low, high)                                                                           \
    { low, high, false, false }
#define ABOVE(low, high)                                                                           \
    { low, high, true, false }
#define BELOW(low, high)                                                                           \
    { low, high, false, true }
#define BETWEEN(low, high)                                                                         \
    { low, high, true, true }

/* clang-format off */
#define OPTION_INIT OPTION_INIT_OF("e.g. written by PyTorch; a folder also gives its vocabulary and codes, and model options that are not given")
#define OPTION_INIT_OF(WHOSE) \
    {"init", "Model", OPTION_TEXT, AT(init_path), "FILE|DIR", "none", "none", {0}, ANY, RUN, MATH, \
     "safetensors file, or folder of a run, with the weights to start from, " WHOSE "; none: drawn from --seed"}

#define OPTION_SHARDS \
    {"shards", "Batch", OPTION_INT, AT(shards), "N", "1", NULL, {0}, RANGE(1, 1024), MODEL | FOR_EVAL, MATH | OPTION_LATER, \
     "parts of a batch, done one after the other, or by several processes: less memory for activations, more for gradients; must divide --batch; as many as processes under mpirun"}

#define OPTION_STASH \
    {"stash", "Batch", OPTION_CHOICE, AT(stash), NULL, "none", "none", {"none", "fp16", "fp10", "fp8"}, ANY, MODEL, MATH | OPTION_RARE, \
     "what waits for the backward pass is rounded to numbers of so many bits, and can then be kept in them; the forward pass goes on with what is exact, so do signs: see docs/memory.md"}

/* Names of the default optimiser, rate (with what help says of it) and clip. */
#define OPTIONS_OPTIMISER(STANDARD, RATE, RATE_HELP, CLIP) \
    {"optimizer", "Optimiser", OPTION_CHOICE, AT(optimizer), NULL, STANDARD, NULL, {"sgd", "adam", "adamw"}, ANY, MODEL, MATH, \
     "rule that changes the weights"}, \
    {"lr", "Optimiser", OPTION_REAL, AT(lr), "X", RATE, NULL, {0}, ABOVE(0, 1e9), MODEL, MATH | OPTION_LATER, \
     RATE_HELP}, \
    {"momentum", "Optimiser", OPTION_REAL, AT(momentum), "X", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH, \
     "of sgd"}, \
    {"beta1", "Optimiser", OPTION_REAL, AT(beta1), "X", "0.9", NULL, {0}, BELOW(0, 1), MODEL, MATH, \
     "of adam and adamw: decay of the mean gradient"}, \
    {"beta2", "Optimiser", OPTION_REAL, AT(beta2), "X", "0.999", NULL, {0}, BELOW(0, 1), MODEL, MATH, \
     "of adam and adamw: decay of the mean squared gradient"}, \
    {"eps", "Optimiser", OPTION_REAL, AT(eps), "X", "1e-08", NULL, {0}, ABOVE(0, 1), MODEL, MATH, \
     "of adam and adamw: added to the divisor"}, \
    {"weight-decay", "Optimiser", OPTION_REAL, AT(weight_decay), "X", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH, \
     "pull of the weights towards 0"}, \
    {"clip", "Optimiser", OPTION_REAL, AT(clip), "X", CLIP, "none", {0}, ABOVE(0, 1e9), MODEL, MATH, \
     "longest gradient over all weights together; a longer one is scaled down"}, \
    {"schedule", "Optimiser", OPTION_CHOICE, AT(schedule), NULL, "constant", NULL, {"constant", "plateau", "warmup", "cosine", "inverse"}, ANY, MODEL, MATH, \
     "how the learning rate changes: not at all; by --lr-factor when validation stops improving; growing linearly over --warmup steps; falling to 0 along a cosine until the last step; with the inverse square root of the step after --warmup"}, \
    {"warmup", "Optimiser", OPTION_INT, AT(warmup), "STEPS", "none", "none", {0}, RANGE(1, 1e12), MODEL, MATH, \
     "steps over which the rate grows linearly, with any schedule; 1000 with --schedule warmup and inverse"}, \
    {"lr-patience", "Optimiser", OPTION_INT, AT(lr_patience), "N", "1", NULL, {0}, RANGE(1, 1e6), MODEL, MATH, \
     "of --schedule plateau: validations without improvement before the rate falls"}, \
    {"lr-factor", "Optimiser", OPTION_REAL, AT(lr_factor), "X", "0.25", NULL, {0}, BETWEEN(0, 1), MODEL, MATH, \
     "of --schedule plateau: what the rate is multiplied by"}

#define OPTION_AVERAGE \
    {"average", "Optimiser", OPTION_REAL, AT(average), "DECAY", "none", "none", {0}, BETWEEN(0, 1), MODEL, MATH | OPTION_RARE, \
     "keep an exponential average of the weights, 0.999 for the last thousand steps or so: it is what is validated, and what the files of weights hold"}

#define OPTIONS_LENGTH \
    {"epochs", "Length", OPTION_INT, AT(epochs), "N", "10", "none", {0}, RANGE(1, 1e9), RUN, OPTION_SHOWN | OPTION_LATER, \
     "times through the data; not a limit where only --steps is given"}, \
    {"steps", "Length", OPTION_INT, AT(steps), "N", "none", "none", {0}, RANGE(1, 1e12), STEP, OPTION_SHOWN | OPTION_JOINT, \
     "steps in all, whichever ends first; for bench: steps timed, after 2 to warm up (10 if not given)"}, \
    {"patience", "Length", OPTION_INT, AT(patience), "N", "none", "none", {0}, RANGE(1, 1e6), RUN, OPTION_SHOWN, \
     "end after so many validations in a row without improvement"}, \
    {"valid-every", "Length", OPTION_INT, AT(valid_every), "STEPS", "epoch", "epoch", {0}, RANGE(1, 1e12), RUN, MATH | OPTION_RARE, \
     "validate, and save, every so many steps, and at the end; epoch: after every epoch"}

/* What every run stores of the machine; COMMANDS: those that take them. */
#define OPTION_MEMORY(COMMANDS) \
    {"memory", "Machine", OPTION_SIZE, offsetof(train_settings, memory), "SIZE", "auto", NULL, {0}, ANY, COMMANDS, OPTION_SHOWN, \
     "most bytes used: 512M, 2G, 1.5GiB (1024-based), 80% of what is free, a plain number of bytes; auto: 80%. Of several processes each has so much; 2G,512M,...: rank 0 the first, rank 1 the second, and so on"}
#define OPTION_THREADS(COMMANDS) \
    {"threads", "Machine", OPTION_INT, offsetof(train_settings, threads), "N", "auto", "auto", {0}, RANGE(1, 256), COMMANDS, OPTION_SHOWN, \
     "auto: all cores the machine allows; never changes a result"}
#define OPTION_DISABLE(COMMANDS) \
    {"disable", "Machine", OPTION_PASSES, offsetof(train_settings, disabled), "PASS", "none", "none", {0}, ANY, COMMANDS, OPTION_SHOWN | OPTION_JOINT, \
     "leave out an optional compiler pass (repeatable); never changes a result"}

/* FOLDER: where runs of the kind go if the user names none. */
#define OPTIONS_RUN(FOLDER) \
    {"out", "Run", OPTION_TEXT, AT(out_dir), "DIR", FOLDER, NULL, {0}, ANY, RUN | FOR_DATA_BUILD, OPTION_SHOWN | OPTION_PATH, \
     "folder for weights, metrics and state, and what belongs to them; a run that is in it already goes on"}, \
    {"fresh", "Run", OPTION_SWITCH, AT(fresh), NULL, "false", NULL, {0}, ANY, RUN | FOR_TUNE, 0, \
     "start over, dropping the run that is in the folder; for tune: what was measured before"}, \
    {"override", "Run", OPTION_TEXT, AT(override), "KEY=VALUE", "none", "none", {0}, ANY, FOR_TRAIN, OPTION_LIST | OPTION_JOINT, \
     "of a run that goes on, from here on another value (repeatable): lr, schedule, warmup, lr-patience, lr-factor, clip, weight-decay, dropout, smoothing. The run notes it; the same command goes on with it"}, \
    {"save-every", "Run", OPTION_INT, AT(save_every), "STEPS", "epoch", "epoch", {0}, RANGE(1, 1e12), RUN, OPTION_SHOWN, \
     "save the state every so many steps too; epoch: at the end of epochs only"}, \
    {"keep", "Run", OPTION_INT, AT(keep), "N", "none", "none", {0}, RANGE(1, 1e6), RUN, OPTION_SHOWN | OPTION_RARE, \
     "keep the weights of the last N saves as step-<step>.safetensors, to average or compare them"}, \
    {"log-every", "Run", OPTION_INT, AT(log_every), "STEPS", "100", NULL, {0}, RANGE(1, 1e12), RUN, OPTION_SHOWN, \
     "report and write metrics every so many steps"}

#define OPTIONS_RANKS \
    {"ranks", "Processes", OPTION_INT, AT(ranks), "N", "none", "none", {0}, RANGE(1, 64), FOR_PLAN, 0, \
     "forecast of a run that mpirun starts as so many processes: bytes and seconds of each, waiting, speed-up over one, what to choose; needs no MPI"}, \
    {"network", "Processes", OPTION_TEXT, AT(network), "RATE,LATENCY", "none", "none", {0}, ANY, STEP, OPTION_JOINT, \
     "of plan --ranks, and of --virtual: what joins the processes, each on a host of its own: 1G,50us is 1 Gbit/s and 50 microseconds (K, M, G; ns, us, ms, s); none: shared memory of one host"}, \
    {"trace", "Processes", OPTION_TEXT, AT(trace), "DIR", "none", "none", {0}, ANY, FOR_PLAN, 0, \
     "of --ranks: write the step as time-independent traces for SimGrid (smpirun -replay), with platform and hosts, to a folder"}, \
    {"stages", "Processes", OPTION_INT, AT(stages), "N", "1", NULL, {0}, RANGE(1, 64), STEP, OPTION_JOINT, \
     "under mpirun, or with plan --ranks, so many processes share the layers, each a run of them, and hand on what they make (pipeline); must divide the number of processes"}, \
    {"chunk-steps", "Processes", OPTION_INT, AT(chunk_steps), "N", "auto", "auto", {0}, RANGE(1, 1e6), STEP, OPTION_JOINT, \
     "with --stages, time steps that a process does before it hands them on: fewer let the next one begin earlier, more make larger products. The bits are the same"}, \
    {"reduce", "Processes", OPTION_CHOICE, AT(reduce), NULL, "auto", NULL, {"auto", "slices", "copies", "central"}, ANY, STEP, OPTION_JOINT, \
     "under mpirun, or with plan --ranks, who adds up and applies gradients: of every slice of the weights one process, which alone has its optimiser state; all, each for itself; the first one. auto: slices or copies, by the forecast of a step, of what fits. The bits are the same"}, \
    {"only", "Processes", OPTION_CHOICE, AT(only), NULL, "all", NULL, {"all", "messages", "compute"}, ANY, FOR_BENCH, OPTION_JOINT, \
     "under mpirun, time only one part of a step; what it computes means nothing then"}, \
    {"virtual", "Processes", OPTION_SWITCH, AT(virtual_clock), NULL, "false", NULL, {0}, ANY, FOR_TRAIN | FOR_BENCH, OPTION_RARE | OPTION_JOINT, \
     "under mpirun, also say what a step would take if every process had a core of its own, joined by --network; as many work at once as there are cores. train: its words a second are of that clock"}, \
    {"lost-after", "Processes", OPTION_REAL, AT(lost_after), "SECONDS", "30", NULL, {0}, ABOVE(0, 1e6), STEP, 0, \
     "under mpirun, a process that does not answer for so long counts as lost, and the run ends"}

#define OPTIONS_END \
    {"tensorboard", "Run", OPTION_TEXT, AT(tensorboard), "DIR", "none", "none", {0}, ANY, RUN, OPTION_SHOWN | OPTION_PATH, \
     "write metrics for TensorBoard to a folder too"}, \
    {"seed", "Run", OPTION_SEED, AT(seed), "N", "1", NULL, {0}, ANY, MODEL | FOR_GENERATE | FOR_DATA, MATH, \
     "start of all random numbers: the same seed gives the same bits"}
/* clang-format on */

#endif
