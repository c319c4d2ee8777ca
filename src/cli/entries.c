/* entries.c - see entries.h. */
#include "cli/entries.h"

#include <string.h>

/* What every kind of model takes part in, if it says so. */
static const struct {
    const char *name;
    option_command id;
    ebb_status (*run)(cli_call *call);
} of_kinds[] = {{"train", FOR_TRAIN, ebb__cli_train},
                {"plan", FOR_PLAN, ebb__cli_plan},
                {"bench", FOR_BENCH, ebb__cli_bench},
                {"tune", FOR_TUNE, ebb__cli_tune},
                {"eval", FOR_EVAL, ebb__cli_eval}};

static const cli_entry others[] = {
    {"eval", "bleu", NULL, FOR_SCORE, -2, ebb__cli_bleu, "eval bleu HYP REF... [options]",
     "BLEU of translations",
     "Compares the translations in the file HYP with the references in REF, line by\n"
     "line; of several REF files each has a reference of every line. The number is\n"
     "that of sacreBLEU. Text that is tokenised already needs --tok none.\n"},
    {"eval", "chrf", NULL, FOR_CHRF, -2, ebb__cli_chrf, "eval chrf HYP REF... [options]",
     "the same by characters: chrF",
     "Compares the translations in the file HYP with the references in REF, line by\n"
     "line, by their characters; of several REF files the best reference of a line\n"
     "counts. The number is that of sacreBLEU.\n"},
    {"decode", NULL, NULL, FOR_DECODE, -1, ebb__cli_decode, "decode DIR... [options] <SRC >HYP",
     "translate with a trained model",
     "Translates standard input to standard output, line by line, with the best\n"
     "weights of the run in the folder DIR. Lines are answered as they come. With\n"
     "several DIR, runs of one vocabulary and of the same sizes, every word is chosen\n"
     "by the mean of their probabilities.\n"},
    {"generate", NULL, NULL, FOR_GENERATE, 1, ebb__cli_generate, "generate DIR [options]",
     "let a trained model write text",
     "Writes text with the best weights of the run in the folder DIR.\n"},
    {"predict", NULL, NULL, FOR_PREDICT, -2, ebb__cli_predict, "predict DIR IMAGE... [options]",
     "what images show, by a trained net",
     "Says what PNG and JPEG files show, by the best weights of the run in the folder\n"
     "DIR: a line an image, the likeliest classes with their probabilities.\n"},
    {"average", NULL, NULL, FOR_AVERAGE, -2, ebb__cli_average, "average WEIGHTS... OUT [options]",
     "the mean of weights of one model",
     "Writes the mean of several safetensors files of one model to the file OUT, to be\n"
     "used with --weights OUT. Of the folder of a run its best weights are meant;\n"
     "train with --keep N leaves the last N to average: ebb average run/step-* mean.\n"},
    {"report", NULL, NULL, FOR_REPORT, 2, ebb__cli_report, "report DIR FILE.html [options]",
     "a page about a run",
     "Writes a page about the run in the folder DIR that needs nothing else: the bytes\n"
     "of a step, time against memory, how training went, translations or what is taken\n"
     "for what, all settings.\n"},
    {"devices", NULL, NULL, FOR_DEVICES, 0, ebb__cli_devices, "devices [options]",
     "what can compute here",
     "Lists what --device can name: each device with its memory, the most of it that\n"
     "can be had in one piece, and why it cannot be used, if so.\n"},
    {"inspect", NULL, NULL, FOR_INSPECT, 1, ebb__cli_inspect, "inspect FILE|NET [options]",
     "what a safetensors file holds; a net as text",
     "Checks a safetensors file whole and lists what it holds. Of a net, by its name\n"
     "or in a file (.txt, darknet's .cfg), prints the layers as text (docs/nets.md).\n"},
    {"data", "grammar", NULL, FOR_DATA, 1, ebb__cli_data_grammar, "data grammar FILE [options]",
     "write a text to try things on",
     "Writes sentences of a toy English grammar to FILE, one a line.\n"},
    {"data", "dates", NULL, FOR_DATA, 2, ebb__cli_data_dates, "data dates SRC TGT [options]",
     "write a translation task to try things on",
     "Writes dates in English to SRC and, line by line, the same dates as ISO 8601 has\n"
     "them to TGT.\n"},
    {"data", "codes", NULL, FOR_CODES, -3, ebb__cli_data_codes,
     "data codes learn FILE... OUT | apply CODES FILE OUT",
     "byte-pair codes, as subword-nmt has them",
     "Learns N pairs of pieces from texts and writes them to OUT, or cuts the words of\n"
     "a text into pieces with codes that are given:\n\n"
     "  ebb data codes learn FILE... OUT --codes N\n"
     "  ebb data codes apply CODES FILE OUT\n\n"
     "A piece that is not the last of its word ends in @@. - is standard input or\n"
     "output. Files and pieces are those of subword-nmt. CODES may also be a folder\n"
     "with GPT-2's vocab.json and merges.txt: pieces are then written with its letters\n"
     "for bytes or, with --ids, as numbers. train --tokens bpe does it all by itself.\n"},
    {"data", "plan", NULL, FOR_DATA_PLAN, 0, ebb__cli_data_plan,
     "data plan --lm FILE | --nmt SRC TGT", "which shapes batches are best padded to",
     "Counts how long the sentences of a text are, or of two texts line by line, and\n"
     "compares ways to group them: what share of a batch is padding, and how long an\n"
     "epoch of the model would take. Takes the model options of train lm or, with\n"
     "--nmt, of train nmt; ebb data plan --nmt --help lists those.\n"},
    {"data", "build", NULL, FOR_DATA_BUILD, 0, ebb__cli_data_build,
     "data build --lm FILE | --nmt SRC TGT | --cnn PATH",
     "make the files that training reads, ahead",
     "Makes what training would make first, in the folder --out: vocabularies, and\n"
     "texts as token files; with --cnn, images decoded once and brought to one size.\n"
     "ebb train with the same data and the same of these options finds them there.\n"
     "What is whole stays; files that are stale or damaged are made again. A folder\n"
     "with a run of other data or another vocabulary is refused. With --nmt or --cnn\n"
     "the options are those of translation or of nets; ebb data build --nmt --help\n"
     "lists them.\n"},
};

enum { N_OTHERS = sizeof others / sizeof *others };

static void add_kinds(cli_entries *list, size_t verb) {
    for (size_t k = 0; k < ebb__kind_count(); k++) {
        const model_kind *kind = ebb__kind_at(k);
        for (size_t i = 0; i < kind->n_commands; i++) {
            const kind_command *c = &kind->commands[i];
            if (c->command == of_kinds[verb].id && list->n < CLI_MOST_ENTRIES - N_OTHERS) {
                list->at[list->n++] =
                    (cli_entry){of_kinds[verb].name, kind->name, kind,       c->command, c->n_words,
                                of_kinds[verb].run,  c->usage,   c->summary, c->details};
            }
        }
    }
}

cli_entries ebb__cli_entries(void) {
    cli_entries list = {.n = 0};
    for (size_t verb = 0; verb < sizeof of_kinds / sizeof *of_kinds; verb++) {
        add_kinds(&list, verb);
    }
    for (size_t i = 0; i < N_OTHERS; i++) {
        list.at[list.n++] = others[i];
    }
    return list;
}

const cli_entry *ebb__cli_entry_find(const cli_entries *list, const char *name, const char *model) {
    for (size_t i = 0; i < list->n; i++) {
        const cli_entry *c = &list->at[i];
        if (strcmp(c->name, name) == 0 &&
            (model == NULL || (c->model != NULL && strcmp(c->model, model) == 0))) {
            return c;
        }
    }
    return NULL;
}

/* Of `data plan` and `data build` the kind of model is an option. */
static bool has_option(int argc, char **argv, const char *name) {
    size_t n = strlen(name);
    bool found = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        found = found || (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, n) == 0 &&
                          (argv[i][2 + n] == '\0' || argv[i][2 + n] == '='));
    }
    return found;
}

const model_kind *ebb__cli_entry_kind(const cli_entry *command, int argc, char **argv) {
    bool data = command->id == FOR_DATA_PLAN || command->id == FOR_DATA_BUILD;
    for (size_t i = 0; command->kind == NULL && i < ebb__kind_count(); i++) {
        const model_kind *kind = ebb__kind_at(i);
        if ((data && has_option(argc, argv, kind->name)) ||
            (command->id == FOR_DECODE && kind->decode != NULL) ||
            (command->id == FOR_GENERATE && kind->generate != NULL) ||
            (command->id == FOR_PREDICT && kind->predict != NULL)) {
            return kind;
        }
    }
    return command->kind != NULL ? command->kind : ebb__kind_at(0);
}

size_t ebb__cli_entry_options(const cli_entry *entry, const train_option **out, size_t room) {
    bool any = entry->id == FOR_DATA_PLAN || entry->id == FOR_DATA_BUILD;
    const model_kind *own = ebb__cli_entry_kind(entry, 0, NULL);
    size_t n = 0;
    for (size_t k = 0; k < ebb__kind_count(); k++) {
        const model_kind *kind = ebb__kind_at(k);
        for (size_t i = 0; (any || kind == own) && i < ebb__cli_option_count(kind); i++) {
            const train_option *option = ebb__cli_option(kind, i);
            size_t same = 0;
            while (same < n && strcmp(out[same]->name, option->name) != 0) {
                same++;
            }
            if ((option->commands & (unsigned)entry->id) != 0 && same == n && n < room) {
                out[n++] = option;
            }
        }
    }
    return n;
}
