/* options.c - the options of the command itself, which follow those of a kind in --help and in a
 * run's `config`. */
#include "cli/options.h"

#include "data/codes.h"
#include "plan/passes.h"
#include "train/options.h"

#include <string.h>

#define USE (FOR_EVAL | FOR_GENERATE | FOR_DECODE | FOR_PREDICT)
#define ALL                                                                                        \
    (MODEL | USE | TEXTS | FOR_INSPECT | FOR_DATA | FOR_CODES | FOR_SCORE | FOR_CHRF |             \
     FOR_REPORT | FOR_AVERAGE | FOR_DEVICES)
#undef AT
#define AT(field) offsetof(cli_settings, field)
_Static_assert(offsetof(cli_settings, run) == 0, "options of kinds have offsets in run");

static const train_option options[] = {
    /* clang-format off */
    {"length", "Text", OPTION_INT, AT(length), "N", "200", NULL, {0}, RANGE(1, 1e9), FOR_GENERATE, 0,
     "tokens to write"},
    {"temperature", "Text", OPTION_REAL, AT(temperature), "X", "1", NULL, {0}, RANGE(0, 1e6), FOR_GENERATE, 0,
     "below 1 safer, above 1 wilder, 0 always the likeliest token"},
    {"top-k", "Text", OPTION_INT, AT(top_k), "N", "all", "all", {0}, RANGE(1, 1e9), FOR_GENERATE, 0,
     "draw among the N likeliest tokens only"},
    {"top-p", "Text", OPTION_REAL, AT(top_p), "P", "1", NULL, {0}, ABOVE(0, 1), FOR_GENERATE, 0,
     "draw among the likeliest tokens only, as few as have this share of the probability together; after --temperature and --top-k"},
    {"stop-at-eos", "Text", OPTION_SWITCH, AT(stop_at_eos), NULL, "false", NULL, {0}, ANY, FOR_GENERATE, 0,
     "end with the first <eos>, a line end, even before --length tokens"},
    {"prompt", "Text", OPTION_TEXT, AT(prompt), "TEXT", "", NULL, {0}, ANY, FOR_GENERATE, OPTION_EMPTY,
     "text to go on from; empty: a new line"},
    {"lines", "Text", OPTION_INT, AT(lines), "N", "10000", NULL, {0}, RANGE(1, 1e12), FOR_DATA, 0,
     "sentences to write"},
    {"codes", "Text", OPTION_INT, AT(codes), "N", "none", "none", {0}, RANGE(1, CODES_MOST_PAIRS), FOR_CODES, 0,
     "of learn: how many pairs; fewer where no more stand together twice"},
    {"ids", "Text", OPTION_SWITCH, AT(ids), NULL, "false", NULL, {0}, ANY, FOR_CODES, 0,
     "of apply with a folder of GPT-2's vocab.json and merges.txt: write numbers of pieces, not the pieces"},
    {"beam", "Translation", OPTION_INT, AT(beam), "N", "5", NULL, {0}, RANGE(1, 64), FOR_DECODE, 0,
     "translations of a sentence followed side by side; 1: always the likeliest next word"},
    {"nbest", "Translation", OPTION_INT, AT(nbest), "N", "1", NULL, {0}, RANGE(1, 64), FOR_DECODE, 0,
     "translations written for every sentence, at most --beam; above 1 as lines `number ||| text ||| log probability ||| score`"},
    {"length-penalty", "Translation", OPTION_REAL, AT(alpha), "X", "1", NULL, {0}, RANGE(0, 10), FOR_DECODE, 0,
     "score of a translation of n words: its log probability divided by n to this power"},
    {"max-ratio", "Translation", OPTION_REAL, AT(max_ratio), "X", "2", NULL, {0}, ABOVE(0, 100), FOR_DECODE, 0,
     "a translation ends at this many words for every source word, and 10 more"},
    {"unk", "Translation", OPTION_CHOICE, AT(unk), NULL, "replace", NULL, {"replace", "ban", "keep"}, ANY, FOR_DECODE, 0,
     "what becomes of <unk>: the source word that it attended to most stands for it; it is never written, the next likeliest word is; it stays"},
    {"attention", "Translation", OPTION_TEXT, AT(attention), "FILE", "none", "none", {0}, ANY, FOR_DECODE, 0,
     "write what every word attended to, as JSON, a sentence a line"},
    {"attention-svg", "Translation", OPTION_TEXT, AT(attention_svg), "FILE", "none", "none", {0}, ANY, FOR_DECODE, 0,
     "draw the same of the first sentences"},
    {"top", "Images", OPTION_INT, AT(top), "N", "5", NULL, {0}, RANGE(1, 65536), FOR_PREDICT, 0,
     "classes named for every image, the likeliest first"},
    {"weights", "Weights", OPTION_TEXT, AT(run.weights), "WHICH", "best", NULL, {0}, ANY, USE, 0,
     "weights of the run to use: best; last, those of the last step saved; or a safetensors file, as `ebb average` writes it. Where nothing was validated the last ones are the best"},
    {"tok", "Scores", OPTION_CHOICE, AT(tok), NULL, "13a", NULL, {"13a", "none"}, ANY, FOR_SCORE, 0,
     "how lines are split: as sacreBLEU does by default, or at white space only, for text that is tokenised already"},
    OPTION_MEMORY(MODEL | USE),
    OPTION_THREADS(MODEL | USE),
    {"device", "Machine", OPTION_TEXT, AT(device), "NAME", "cpu", NULL, {0}, ANY, MODEL | USE, 0,
     "what computes: cpu; opencl, or opencl:0.1, device 1 of platform 0, whose memory --memory then limits; auto: a GPU of opencl's that can be used, else cpu. `ebb devices` lists them; never changes a result"},
    {"host-memory", "Machine", OPTION_SIZE, AT(run.host_memory), "SIZE", "auto", NULL, {0}, ANY, MODEL | USE, 0,
     "with --device opencl, most bytes used of the host, also by what waits there for backward; auto: as many as are needed"},
    {"disk", "Machine", OPTION_TEXT, AT(run.disk), "DIR", "none", "none", {0}, ANY, MODEL, 0,
     "with --device cpu, folder of a file without a name that values may wait in for backward, where the memory is too small for faster ways; never changes a result"},
    {"tune", "Machine", OPTION_TEXT, AT(tune), "DIR", "auto", "auto", {0}, ANY, MODEL | USE, 0,
     "folder for times that products were measured to take on this machine; off: built-in ones; auto: $EBB_TUNE, else the user's cache folder; never changes a result"},
    {"seconds", "Machine", OPTION_REAL, AT(run.tune_seconds), "X", "60", NULL, {0}, RANGE(0, 1e6), FOR_TUNE, 0,
     "most time spent on measuring"},
    OPTION_DISABLE(MODEL),
    {"dump-after", "Machine", OPTION_PASSES, AT(run.dump_after), "PASS", "none", "none", {0}, ANY, STEP, 0,
     "print the graph after a compiler pass (repeatable)"},
    {"explain", "Machine", OPTION_SWITCH, AT(run.explain), NULL, "false", NULL, {0}, ANY, FOR_PLAN, 0,
     "list what was decided, layer by layer, with the bytes and seconds of it, and the products of a step: how each is carried out, what was measured, its share"},
    {"curve", "Machine", OPTION_SWITCH, AT(curve), NULL, "false", NULL, {0}, ANY, FOR_PLAN, 0,
     "list every plan worth taking, from the fastest to the smallest: time against memory"},
    {"program", "Machine", OPTION_SWITCH, AT(program), NULL, "false", NULL, {0}, ANY, FOR_PLAN, 0,
     "list every instruction of every program: kernel, addresses and bytes, run, members, label"},
    {"svg", "Machine", OPTION_TEXT, AT(svg), "FILE", "none", "none", {0}, ANY, FOR_PLAN, 0,
     "draw the bytes over one step, by layer and kind, of a net by the form that what waits for backward is in; with --curve: time against memory; with --ranks: what each process does when"},
    {"svg", "Machine", OPTION_TEXT, AT(svg), "FILE", "none", "none", {0}, ANY, FOR_DATA_PLAN, 0,
     "draw how often each length occurs, and the shapes of the chosen strategy"},
    {"profile", "Machine", OPTION_SWITCH, AT(run.profile), NULL, "false", NULL, {0}, ANY, FOR_BENCH, OPTION_JOINT,
     "observe as many steps again: where their time goes, and how near the machine's peak they come"},
    {"config", "General", OPTION_TEXT, AT(config), "FILE", "none", "none", {0}, ANY, MODEL | FOR_DATA_BUILD, 0,
     "read options from a file, `key = value` a line, keys named as here; the command line wins"},
    {"json", "General", OPTION_SWITCH, AT(json), NULL, "false", NULL, {0}, ANY, MODEL | FOR_DATA_BUILD | FOR_CODES | FOR_EVAL | FOR_PREDICT | FOR_INSPECT | FOR_SCORE | FOR_CHRF | FOR_DEVICES, 0,
     "results as one JSON object on standard output"},
    {"quiet", "General", OPTION_SWITCH, AT(quiet), NULL, "false", NULL, {0}, ANY, ALL, 0,
     "no plan, no progress: only warnings and errors"},
    {"verbose", "General", OPTION_SWITCH, AT(verbose), NULL, "false", NULL, {0}, ANY, ALL, 0,
     "more about what is going on"},
    /* clang-format on */
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static const option_list command_options = {options, N_OPTIONS};

static option_set list_of(const model_kind *kind) {
    return (option_set){.kind = kind, .more = &command_options};
}

option_set ebb__cli_set(cli_settings *settings) {
    return (option_set){.ctx = settings->ctx,
                        .kind = settings->run.kind,
                        .more = &command_options,
                        .base = settings,
                        .given = settings->given,
                        .region = &settings->region};
}

size_t ebb__cli_option_count(const model_kind *kind) {
    option_set set = list_of(kind);
    return ebb__options_count(&set);
}

const train_option *ebb__cli_option(const model_kind *kind, size_t index) {
    option_set set = list_of(kind);
    return ebb__options_at(&set, index);
}

const train_option *ebb__cli_find(const model_kind *kind, const char *name) {
    option_set set = list_of(kind);
    return ebb__options_find(&set, name);
}

const train_option *ebb__cli_find_for(option_command command, const model_kind *kind,
                                      const char *name) {
    for (size_t i = 0; i < ebb__cli_option_count(kind); i++) {
        const train_option *option = ebb__cli_option(kind, i);
        if ((option->commands & (unsigned)command) != 0 && strcmp(option->name, name) == 0) {
            return option;
        }
    }
    return ebb__cli_find(kind, name);
}

bool ebb__cli_given(const cli_settings *settings, const char *name) {
    option_set set = ebb__cli_set((cli_settings *)settings); /* only read */
    return ebb__options_given(&set, name);
}

ebb_status ebb__cli_assign(cli_settings *settings, const train_option *option, const char *text,
                           bool literal, const char *where) {
    option_set set = ebb__cli_set(settings);
    return ebb__options_assign(&set, option, text, literal, where);
}

ebb_status ebb__cli_settings_init(ebb_ctx *ctx, const model_kind *kind, cli_settings *out) {
    memset(out, 0, sizeof *out);
    out->ctx = ctx;
    ebb__region_init(&out->region, ctx);
    if (ebb__cli_option_count(kind) > OPTION_MAX) {
        return ebb__fail(ctx, EBB_INTERNAL, "kind %s has too many options", kind->name);
    }
    TRY(ebb__settings_init(ctx, kind, &out->run));
    for (size_t i = 0; i < N_OPTIONS; i++) {
        TRY(ebb__option_assign(ctx, &options[i], out, options[i].standard, false, options[i].name));
    }
    return EBB_OK;
}

void ebb__cli_settings_fini(cli_settings *settings) {
    ebb__region_fini(&settings->region);
}
