/* cnn.c - convolutional nets that tell images apart. */
#include "kind/cnn/cnn.h"

#include "base/rng.h"
#include "kind/kinds.h"
#include "model/net_named.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the model ---- */

static data_shape plain_shape(const train_settings *s) {
    return (data_shape){.target = 1, .rows = s->batch};
}

static void class_count(const train_settings *s, job_request *request) {
    request->vocab = cnn_own(s)->classes;
}

static ebb_status build(ir_graph *graph, const train_settings *s, const job_request *request,
                        data_shape shape, job_use use) {
    net_model net;
    cnn_model model = {.net = &net,
                       .batch = s->batch,
                       .lanes = cnn_own(s)->lanes,
                       .train = use == JOB_TRAIN,
                       .freeze = cnn_own(s)->freeze,
                       .dropout = cnn_own(s)->dropout,
                       .seed = s->seed};
    (void)request, (void)shape;
    ebb__net_init(&net, graph->ctx);
    ebb_status status = ebb__cnn_net(s, &net);
    if (status == EBB_OK) {
        status = ebb__cnn_build(graph, &model);
    }
    ebb__net_fini(&net);
    return status;
}

static uint64_t staging(const train_settings *s, const job_request *request) {
    image_size size = cnn_image_size(s);
    (void)request;
    return image_batches_bytes(&size);
}

/* ---- batches ---- */

static ebb_status fill(const job_reader *reader, uint64_t step, int32_t *program,
                       uint64_t *labels) {
    const cnn_batches *b = reader->batches;
    void *to[2];
    *program = b->program;
    TRY(ebb__run_map_all(b->session, b->places, 2, DEVICE_WRITE, to));
    ebb_status status =
        ebb__image_batches_fill(&b->batches, step, 0, b->batches.how.images, to[0], to[1], labels);
    ebb_status unmapped = ebb__run_unmap_all(b->session, b->places, 2, DEVICE_WRITE, to);
    return status == EBB_OK ? unmapped : status;
}

/* How many classes the logits put before the right one; of equal ones those with lower numbers. A
 * NaN is before all, and nothing is before a right one beyond `classes`. */
static int64_t rank_of(const float *logits, int64_t classes, int32_t label) {
    int64_t before = 0;
    for (int64_t k = 0; k < classes; k++) {
        before += k != label &&
                  (!(logits[k] <= logits[label]) || (k < label && logits[k] == logits[label]));
    }
    return before;
}

/* The class that is said first: the one with the fewest before it. */
static int64_t said_of(const float *logits, int64_t classes) {
    int64_t said = 0;
    for (int64_t k = 1; k < classes; k++) {
        said = logits[k] > logits[said] ? k : said;
    }
    return said;
}

static void count_class(const cnn_tally *tally, int64_t classes, int32_t label, int64_t said) {
    tally->images[label]++;
    tally->said[said]++;
    tally->right[label] += said == label;
    if (tally->confused != NULL) {
        tally->confused[label * classes + said]++;
    }
}

/* How sure the class that is said is; not finite where the logits are not. */
static double probability_of(const float *logits, int64_t classes, int64_t said) {
    double sum = 0;
    for (int64_t k = 0; k < classes; k++) {
        sum += exp((double)logits[k] - (double)logits[said]);
    }
    return 1 / sum;
}

/* Keeps the surest; of equal ones those that came first. */
static void note_wrong(cnn_tally *tally, kind_wrong wrong) {
    bool full = tally->n_wrong == KIND_MOST_WRONG;
    if (!isfinite(wrong.probability) ||
        (full && tally->wrong[KIND_MOST_WRONG - 1].probability >= wrong.probability)) {
        return;
    }
    int32_t at = full ? KIND_MOST_WRONG - 1 : tally->n_wrong++;
    for (; at > 0 && tally->wrong[at - 1].probability < wrong.probability; at--) {
        tally->wrong[at] = tally->wrong[at - 1];
    }
    tally->wrong[at] = wrong;
}

/* An image whose right class has `before` others before it. */
static void count_image(cnn_batches *b, uint64_t step, int64_t i, const float *logits,
                        int64_t classes, int32_t label, int64_t before) {
    int64_t said = before == 0 ? label : said_of(logits, classes);
    count_class(&b->tally, classes, label, said);
    if (said != label) {
        note_wrong(&b->tally,
                   (kind_wrong){.image = ebb__image_batches_at(&b->batches, step, (uint32_t)i),
                                .label = label,
                                .said = (int32_t)said,
                                .probability = probability_of(logits, classes, said)});
    }
}

/* Counts what a batch of validation found; the first one of an epoch starts anew. */
static ebb_status look(const job_reader *reader, uint64_t step) {
    cnn_batches *b = (cnn_batches *)reader->batches;
    run_place place = ebb__run_find_output(b->session, b->program, CNN_LOGITS);
    int64_t n = b->batches.how.images, classes = (int64_t)(place.bytes / sizeof(float)) / n;
    const float *logits = NULL;
    const int32_t *labels = NULL;
    if (step == 0) {
        b->seen = b->first = b->fifth = 0;
        b->tally.n_wrong = 0;
    }
    TRY(ebb__run_map(b->session, place, DEVICE_READ, &logits));
    ebb_status status = ebb__run_map(b->session, b->places[1], DEVICE_READ, &labels);
    for (int64_t i = 0; status == EBB_OK && i < n; i++) {
        if (labels[i] >= 0) {
            int64_t before = rank_of(logits + i * classes, classes, labels[i]);
            b->seen++;
            b->first += before == 0;
            b->fifth += before < 5;
            if (b->tally.images != NULL) {
                count_image(b, step, i, logits + i * classes, classes, labels[i], before);
            }
        }
    }
    if (status == EBB_OK) {
        status = ebb__run_unmap(b->session, b->places[1], DEVICE_READ, labels);
    }
    ebb_status unmapped = ebb__run_unmap(b->session, place, DEVICE_READ, logits);
    return status == EBB_OK ? unmapped : status;
}

ebb_status ebb__cnn_read(const train_settings *s, const image_set *set, run_session *session,
                         job_use use, cnn_batches *b, job_reader *out) {
    bool train = use == JOB_TRAIN;
    image_batch_options how = {.images = (uint32_t)s->batch,
                               .train = train,
                               .seed = s->seed,
                               .augment = {.pad = (uint32_t)cnn_own(s)->shift,
                                           .flip = cnn_own(s)->flip,
                                           .pad_mean = true,
                                           .crop = cnn_own(s)->crop}};
    *b = (cnn_batches){
        .session = session,
        .program = ebb__plan_program(session->plan, (int32_t)use, 0),
        .places = {ebb__run_find(session, CNN_PIXELS), ebb__run_find(session, CNN_LABELS)}};
    TRY(ebb__image_batches_init(set, &how, ebb__run_host(session, JOB_STAGING, NULL), &b->batches));
    *out = (job_reader){
        .n_batches = b->batches.batches, .batches = b, .fill = fill, .look = train ? NULL : look};
    return EBB_OK;
}

/* x becomes (x - mean) / deviation; channels that are one colour throughout become 0. */
ebb_status ebb__cnn_normalise(run_session *session, const image_card *card) {
    float scale[IMAGE_MOST_CHANNELS], shift[IMAGE_MOST_CHANNELS];
    for (uint32_t c = 0; c < card->size.channels; c++) {
        double deviation = card->deviation[c], mean = card->mean[c];
        scale[c] = deviation > 0 ? (float)(1 / deviation) : 0;
        shift[c] = deviation > 0 ? (float)(-mean / deviation) : 0;
    }
    TRY(ebb__run_write(session, ebb__run_find(session, CNN_SCALE), scale));
    return ebb__run_write(session, ebb__run_find(session, CNN_SHIFT), shift);
}

/* ---- without images ---- */

/* Random bytes, one after the other. */
typedef struct byte_source {
    rng_key key;
    uint64_t n; /* given out so far */
    rng_block drawn;
} byte_source;

static uint8_t next_byte(byte_source *source) {
    uint64_t n = source->n++;
    if (n % 16 == 0) {
        source->drawn = ebb__rng_block(source->key, (uint32_t)(n >> 4), (uint32_t)(n >> 36), 0, 0);
    }
    return (uint8_t)(source->drawn.word[n / 4 % 4] >> (8 * (n % 4)));
}

enum { LARGE = 4, SMALL = 16 }; /* parts that an image has along an axis */

/* An image [Y, X, C]. As in photographs, pixels that lie near each other are alike: each is the
 * mean of what was drawn for its large part, for its small part and for itself. Of pixels that are
 * all drawn apart, hardly any window of a max pool would be without one above 0, and no map as
 * sparse as those of real images are. */
static void draw_image(byte_source *source, image_size size, uint8_t *pixels) {
    uint8_t large[LARGE * LARGE * IMAGE_MOST_CHANNELS] = {0};
    uint8_t small[SMALL * SMALL * IMAGE_MOST_CHANNELS] = {0};
    const uint32_t channels = size.channels;
    for (uint32_t i = 0; i < LARGE * LARGE * channels; i++) {
        large[i] = next_byte(source);
    }
    for (uint32_t i = 0; i < SMALL * SMALL * channels; i++) {
        small[i] = next_byte(source);
    }
    for (uint32_t y = 0; y < size.height; y++) {
        const uint8_t *of_large = large + y * LARGE / size.height * LARGE * channels;
        const uint8_t *of_small = small + y * SMALL / size.height * SMALL * channels;
        for (uint32_t x = 0; x < size.width; x++) {
            const uint8_t *a = of_large + x * LARGE / size.width * channels;
            const uint8_t *b = of_small + x * SMALL / size.width * channels;
            for (uint32_t c = 0; c < channels; c++) {
                *pixels++ = (uint8_t)((8 * a[c] + 4 * b[c] + next_byte(source)) / 13);
            }
        }
    }
}

/* Images of any colours, normalised by what is known of them. */
static ebb_status randomise(run_session *session, const train_settings *s) {
    byte_source source = {.key = ebb__rng_key(s->seed, "bench.pixels")};
    run_place place = ebb__run_find(session, CNN_PIXELS);
    image_card card = {.size = cnn_image_size(s)};
    uint8_t *pixels = NULL;
    TRY(ebb__run_map(session, place, DEVICE_WRITE, &pixels));
    for (uint64_t i = 0; i < place.bytes; i += image_bytes(&card.size)) {
        draw_image(&source, card.size, pixels + i);
    }
    TRY(ebb__run_unmap(session, place, DEVICE_WRITE, pixels));
    for (uint32_t c = 0; c < card.size.channels; c++) {
        card.mean[c] = 127;
        card.deviation[c] = 51; /* 74 of a byte, times the root of 8, 4 and 1 squared, over 13 */
    }
    TRY(ebb__cnn_normalise(session, &card));
    return ebb__job_random_ids(session, CNN_LABELS, cnn_own(s)->classes, s->seed, "bench.labels");
}

/* ---- files of weights ---- */

#define NORM_COUNTER "num_batches_tracked"

/* Counts of norms, and the auxiliary heads of torchvision's googlenet and inception_v3. */
static bool spares(const char *name) {
    static const char *const heads[] = {"aux1.", "aux2.", "AuxLogits."};
    const char *last = strrchr(name, '.');
    bool spared = last != NULL && strcmp(last + 1, NORM_COUNTER) == 0;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        spared = spared || strncmp(name, heads[i], strlen(heads[i])) == 0;
    }
    return spared;
}

static ebb_status head(ebb_ctx *ctx, const train_settings *s, char *name, size_t bytes) {
    net_model net;
    ebb__net_init(&net, ctx);
    ebb_status status = ebb__cnn_net(s, &net);
    if (status == EBB_OK) {
        (void)snprintf(name, bytes, "%s", ebb__cnn_head(&net)->name);
    }
    ebb__net_fini(&net);
    return status;
}

/* ---- the kind ---- */

static ebb_status choose(corpus *base, job_request *request) {
    (void)base, (void)request; /* all batches have one shape */
    return EBB_OK;
}

/* There is nothing to make ahead. */
static ebb_status save(corpus *base) {
    (void)base;
    return EBB_OK;
}

static bool is_name(const train_option *option, const char *text) {
    return strcmp(option->name, "net") == 0 && ebb__net_is_named(text);
}

static const kind_metric metrics[CNN_METRICS] = {
    [CNN_TOP1] = {"top1", "top-1", "top-1 accuracy", .higher = true},
    [CNN_TOP5] = {"top5", "top-5", "top-5 accuracy", .higher = true}};
static const char *const size_options[] = {"net", "size", "channels", "classes", "batch", NULL};

const model_kind ebb__kind_cnn = {.name = "cnn",
                                  .title = "Convolutional net",
                                  .what = "a convolutional net",
                                  .used_by = "predict or ebb eval cnn",
                                  .unit = "images",
                                  .held = CNN_VALID_SET,
                                  .data = "set of images",
                                  .missing = "ebb train cnn needs --train PATH, labelled images to "
                                             "learn from",
                                  .commands = ebb__cnn_commands,
                                  .n_commands = CNN_COMMANDS,
                                  .describe = ebb__cnn_describe,
                                  .options = &ebb__cnn_options,
                                  .metrics = metrics,
                                  .n_metrics = CNN_METRICS,
                                  .sgd_rate = 0.05,
                                  .momentum_rate = 0.01,
                                  .nats = false,
                                  .validates_always = true,
                                  .resolve = ebb__cnn_resolve,
                                  .at_home = ebb__cnn_at_home,
                                  .size_options = size_options,
                                  .corpus = {.bytes = sizeof(cnn_corpus),
                                             .measure = ebb__cnn_measure,
                                             .choose = choose,
                                             .save = save,
                                             .store = ebb__cnn_store,
                                             .begin = ebb__cnn_begin,
                                             .adopt = ebb__cnn_adopt,
                                             .score = ebb__cnn_score,
                                             .compare = ebb__cnn_compare,
                                             .close = ebb__cnn_close},
                                  .labels = CNN_LABELS,
                                  .shape = plain_shape,
                                  .vocab_sizes = class_count,
                                  .staging = staging,
                                  .build = build,
                                  .randomise = randomise,
                                  .layers = ebb__cnn_layers,
                                  .counted = "running_var",
                                  .counter = NORM_COUNTER,
                                  .spares = spares,
                                  .head = head,
                                  .is_name = is_name,
                                  .eval = ebb__cnn_eval,
                                  .classes = ebb__cnn_classes,
                                  .predict_open = ebb__cnn_predict_open,
                                  .predict = ebb__cnn_predict};
