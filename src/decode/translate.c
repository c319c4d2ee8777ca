/* translate.c - see translate.h. All memory is one block of the plan:
 *
 *   [ slots | searches | weights of searches | sentences | order | results | cells | scratch ]
 *
 * Ids of sources and of translations, and weights of results, fill `cells` from the front while the
 * pool is read: every sentence reserves what its translations can take at most. */
#include "decode/translate.h"

#include "data/vocab.h"
#include "model/nmt_decode.h"
#include "decode/beam.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_PER_SLOT = 16, USUAL_SOURCE = 32, SHORTEST = 8, SPARE_TOKENS = 10 };
enum { BOTH = DEVICE_READ | DEVICE_WRITE };

typedef struct sentence {
    int64_t source; /* where its ids stand in `cells`, its translations after them */
    int32_t length; /* <eos> included; 1: it is empty */
    int32_t n_found;
} sentence;

typedef struct found {
    double log_prob, score;
    int64_t tokens, attended, attention; /* where in `cells` */
    int32_t length;
    bool ended;
} found;

typedef struct slot {
    int32_t sentence; /* -1: free */
    beam_search search;
} slot;

/* Inputs of a step: of every slot the length of its source, of every hypothesis the token and the
 * hypothesis that it goes on from. */
enum { IN_LEN, IN_TOKEN, IN_PARENT, STEP_INPUTS };

typedef struct translator {
    run_session *session;
    const translate_options *o;
    const translate_io *io;
    int32_t read_rows, offers; /* sentences read at once; tokens a hypothesis offers */
    int32_t lengths[TRANSLATE_MOST_LENGTHS], n_lengths;
    int32_t steps[TRANSLATE_MOST_LENGTHS], reads[TRANSLATE_MOST_LENGTHS]; /* programs, by length */
    /* the block */
    slot *slots;    /* [B] */
    char *searches; /* [B][search_bytes] */
    float *weights; /* [B][nodes][max_src]; only with attention */
    int32_t *seen;  /* [B][nodes]: attended to most; only where wanted */
    sentence *pool; /* [pool_size] */
    int32_t *order; /* [pool_size]: longest first */
    found *results; /* [pool_size][nbest] */
    int32_t *cells; /* [n_cells]: ids, and floats of attention */
    float *logs;    /* [K][offers] */
    int32_t *tops, *parents, *tokens, *nodes, *before; /* [K][offers], [K], [K], [limit], [K] */
    size_t search_bytes;
    int64_t most_nodes, pool_size, n_cells;
    /* the programs' */
    run_place src, read_len;                                    /* of sources that are read */
    run_place memory[NMT_MOST_MEMBERS], keys[NMT_MOST_MEMBERS]; /* [max_src*B, H] */
    size_t row_bytes;                                           /* of the memory: 4 H */
    run_place input_at[STEP_INPUTS];
    int32_t *input[STEP_INPUTS]; /* mapped except while a program runs */
    /* the pool's state */
    int64_t n_pooled, used_cells; /* sentences, cells */
    int64_t n_ordered, next;      /* in `order`: all that are not empty, the first without a slot */
    int32_t n_active;
    uint64_t number; /* of the pool's first sentence */
} translator;

/* ---- sizes ---- */

static int32_t members_of(const translate_options *o) {
    return o->members > 1 ? o->members : 1;
}

int64_t ebb__translate_pool(const translate_options *o) {
    return (o->attention ? 2 : POOL_PER_SLOT) * (int64_t)o->slots;
}

int32_t ebb__translate_read_rows(const translate_options *o) {
    return (o->slots + 7) / 8;
}

int32_t ebb__translate_offers(const translate_options *o, int64_t vocab) {
    int32_t wanted = 2 * o->beam + o->ban_unk;
    return vocab < wanted ? (int32_t)vocab : wanted;
}

/* Each about two thirds of the one before. */
int32_t ebb__translate_lengths(int32_t max_src, int32_t lengths[TRANSLATE_MOST_LENGTHS]) {
    int32_t n = 0;
    for (int32_t length = max_src; n < TRANSLATE_MOST_LENGTHS; length = length * 2 / 3) {
        lengths[n++] = length;
        if (length <= SHORTEST) {
            break;
        }
    }
    return n;
}

int32_t ebb__translate_limit(const translate_options *o, int32_t source) {
    return (int32_t)(o->ratio * (double)(source - 1)) + SPARE_TOKENS + 1;
}

static beam_options search_options(const translate_options *o, int32_t source) {
    return (beam_options){.beam = o->beam,
                          .nbest = o->nbest,
                          .alpha = o->alpha,
                          .limit = ebb__translate_limit(o, source),
                          .eos = VOCAB_EOS,
                          .bans = o->ban_unk,
                          .banned = VOCAB_UNK};
}

/* How many a sentence takes with all that is found for it. */
static int64_t cells_of(const translate_options *o, int32_t source) {
    int64_t limit = ebb__translate_limit(o, source);
    int64_t one = limit + (o->attended ? limit : 0) + (o->attention ? limit * source : 0);
    return source + o->nbest * one;
}

/* Takes `count` items of `size` bytes from the block; with no block only counts. */
static void *take(char *block, uint64_t *used, uint64_t count, uint64_t size) {
    void *at = block != NULL ? block + *used : NULL;
    *used += (count * size + 15) & ~(uint64_t)15;
    return at;
}

static uint64_t lay_out(translator *t, char *block) {
    const translate_options *o = t->o;
    beam_options longest = search_options(o, o->max_src);
    uint64_t used = 0, slots = (uint64_t)o->slots, beam = (uint64_t)o->beam;
    int32_t usual = o->max_src < USUAL_SOURCE ? o->max_src : USUAL_SOURCE;
    t->search_bytes = (ebb__beam_bytes(&longest) + 15) & ~(size_t)15;
    t->most_nodes = ebb__beam_nodes(&longest);
    t->pool_size = ebb__translate_pool(o);
    t->n_cells = t->pool_size * cells_of(o, usual) + cells_of(o, o->max_src);
    t->slots = take(block, &used, slots, sizeof *t->slots);
    t->searches = take(block, &used, slots, t->search_bytes);
    t->weights = take(block, &used, o->attention ? slots * (uint64_t)t->most_nodes : 0,
                      (uint64_t)o->max_src * sizeof *t->weights);
    t->seen =
        take(block, &used, o->attended ? slots * (uint64_t)t->most_nodes : 0, sizeof *t->seen);
    t->pool = take(block, &used, (uint64_t)t->pool_size, sizeof *t->pool);
    t->order = take(block, &used, (uint64_t)t->pool_size, sizeof *t->order);
    t->results =
        take(block, &used, (uint64_t)t->pool_size * (uint64_t)o->nbest, sizeof *t->results);
    t->cells = take(block, &used, (uint64_t)t->n_cells, sizeof *t->cells);
    t->logs = take(block, &used, beam * (2 * beam + 1), sizeof *t->logs);
    t->tops = take(block, &used, beam * (2 * beam + 1), sizeof *t->tops);
    t->parents = take(block, &used, beam, sizeof *t->parents);
    t->tokens = take(block, &used, beam, sizeof *t->tokens);
    t->nodes = take(block, &used, (uint64_t)longest.limit, sizeof *t->nodes);
    t->before = take(block, &used, beam, sizeof *t->before);
    return used;
}

uint64_t ebb__translate_bytes(const translate_options *options) {
    translator t = {.o = options};
    return lay_out(&t, NULL);
}

/* ---- the pool ---- */

static int by_length(const void *a, const void *b, void *user) {
    const sentence *pool = user;
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return pool[i].length != pool[j].length ? (pool[i].length < pool[j].length ? 1 : -1)
                                            : (i > j) - (i < j);
}

/* An empty source has an empty translation. */
static void pool_sentence(translator *t, int32_t length) {
    int32_t index = (int32_t)t->n_pooled++;
    t->pool[index] = (sentence){.source = t->used_cells, .length = length};
    if (length > 1) {
        t->order[t->n_ordered++] = index;
    } else {
        t->results[(int64_t)index * t->o->nbest] = (found){.ended = true};
        t->pool[index].n_found = 1;
    }
    t->used_cells += cells_of(t->o, length);
}

/* Reads sentences until the pool is full, or there is none at the moment. */
static ebb_status fill_pool(translator *t, bool *end) {
    int64_t worst = cells_of(t->o, t->o->max_src);
    t->n_pooled = t->n_ordered = t->used_cells = t->next = 0;
    while (t->n_pooled < t->pool_size && t->used_cells + worst <= t->n_cells) {
        translate_next got = TRANSLATE_END;
        int32_t n = 0, *ids = t->cells + t->used_cells;
        TRY(t->io->read(t->io->user, ids, t->o->max_src - 1, &n, &got));
        *end = got == TRANSLATE_END;
        if (got != TRANSLATE_SENTENCE) {
            break;
        }
        ids[n] = VOCAB_EOS;
        pool_sentence(t, n + 1);
    }
    qsort_r(t->order, (size_t)t->n_ordered, sizeof *t->order, by_length, t->pool);
    return EBB_OK;
}

/* Stops before the first sentence that is not done: there is one only after a stop or a failure.
 * What is done is written even then. */
static ebb_status write_pool(translator *t) {
    translate_result r;
    for (int64_t i = 0; i < t->n_pooled && t->pool[i].n_found > 0; i++) {
        const sentence *s = &t->pool[i];
        r.number = t->number++;
        r.source = t->cells + s->source;
        r.source_length = s->length;
        r.n = s->n_found;
        for (int32_t k = 0; k < r.n; k++) {
            const found *f = &t->results[i * t->o->nbest + k];
            r.best[k] = (translate_hypothesis){
                .tokens = t->cells + f->tokens,
                .length = f->length,
                .ended = f->ended,
                .log_prob = f->log_prob,
                .score = f->score,
                .attended = t->o->attended && s->length > 1 ? t->cells + f->attended : NULL,
                .attention = t->o->attention && s->length > 1
                                 ? (const void *)(t->cells + f->attention)
                                 : NULL};
        }
        TRY(t->io->write(t->io->user, &r));
    }
    return EBB_OK;
}

/* ---- reading sources ---- */

/* Index of the shortest length that holds a source of at most max_src. */
static int32_t which_length(const translator *t, int32_t source) {
    int32_t i = t->n_lengths - 1;
    while (t->lengths[i] < source) {
        i--;
    }
    return i;
}

/* Rows of the slot's state, all hypotheses: zeros. All IR_SCRATCH variables of the plan must be the
 * state of steps, f32 [K*B, H] (model/nmt_decode.h). */
static ebb_status clear_state(translator *t, int32_t at) {
    const ebb_plan *plan = t->session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        if (plan->variables[i].role != IR_SCRATCH) {
            continue;
        }
        for (int32_t k = 0; k < t->o->beam; k++) {
            uint64_t row = (uint64_t)k * (uint64_t)t->o->slots + (uint64_t)at;
            TRY(ebb__run_zero(t->session, run_part(run_at(&plan->variables[i]), row * t->row_bytes,
                                                   t->row_bytes)));
        }
    }
    return EBB_OK;
}

/* What was read for the sentence in `row` that its first hypothesis starts from, if there is such:
 * it has the state's name after another beginning. */
static ebb_status start_state(translator *t, int32_t program, int32_t row, int32_t at) {
    const ebb_plan *plan = t->session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        char name[96];
        const char *read = NULL;
        if (v->role != IR_SCRATCH ||
            strncmp(v->name, NMT_STEP_STATE, strlen(NMT_STEP_STATE)) != 0) {
            continue;
        }
        (void)snprintf(name, sizeof name, "%s%s", NMT_READ_START, v->name + strlen(NMT_STEP_STATE));
        run_place from = ebb__run_find_output(t->session, program, name);
        if (from.bytes == 0) {
            continue;
        }
        run_place to = run_part(run_at(v), (uint64_t)at * t->row_bytes, t->row_bytes);
        TRY(ebb__run_map(t->session, from, DEVICE_READ, &read));
        ebb_status status = ebb__run_write(t->session, to, read + (size_t)row * t->row_bytes);
        ebb_status unmapped = ebb__run_unmap(t->session, from, DEVICE_READ, read);
        TRY(status);
        TRY(unmapped);
    }
    return EBB_OK;
}

/* Hypothesis j of a slot goes on from its hypothesis k after `token`. */
static void set_hypothesis(translator *t, int32_t at, int32_t j, int32_t k, int32_t token) {
    int32_t slots = t->o->slots;
    t->input[IN_PARENT][j * slots + at] = k * slots + at;
    t->input[IN_TOKEN][j * slots + at] = token;
}

static void clear_hypotheses(translator *t, int32_t at, int32_t from) {
    for (int32_t j = from; j < t->o->beam; j++) {
        set_hypothesis(t, at, j, j, VOCAB_EOS);
    }
}

/* Row `row` of what was read for sources of at most S positions becomes the slot's memory. */
static void copy_memory(const translator *t, const float *from, float *to, int32_t length,
                        int32_t row, int32_t at, int32_t n) {
    size_t units = t->row_bytes / sizeof *to;
    for (int32_t p = 0; p < n; p++) {
        size_t read = (size_t)(length - 1 - p) * (size_t)t->read_rows + (size_t)row;
        size_t kept = (size_t)(t->o->max_src - 1 - p) * (size_t)t->o->slots + (size_t)at;
        memcpy(to + kept * units, from + read * units, t->row_bytes);
    }
}

/* The first that is free from slot `at` on. */
static int32_t free_slot(const translator *t, int32_t at) {
    while (t->slots[at].sentence >= 0) {
        at++;
    }
    return at;
}

static ebb_status start_sentence(translator *t, int32_t index, int32_t at) {
    const sentence *s = &t->pool[index];
    beam_options o = search_options(t->o, s->length);
    t->slots[at].sentence = index;
    ebb__beam_start(&t->slots[at].search, &o, t->searches + (size_t)at * t->search_bytes);
    TRY(clear_state(t, at));
    clear_hypotheses(t, at, 0);
    t->input[IN_LEN][at] = s->length;
    t->n_active++;
    return EBB_OK;
}

static ebb_status close_inputs(translator *t) {
    void *mapped[] = {t->input[IN_LEN], t->input[IN_TOKEN], t->input[IN_PARENT]};
    memset(t->input, 0, sizeof t->input);
    return ebb__run_unmap_all(t->session, t->input_at, STEP_INPUTS, BOTH, mapped);
}

static ebb_status open_inputs(translator *t) {
    void *mapped[STEP_INPUTS];
    TRY(ebb__run_map_all(t->session, t->input_at, STEP_INPUTS, BOTH, mapped));
    for (int i = 0; i < STEP_INPUTS; i++) {
        t->input[i] = mapped[i];
    }
    return EBB_OK;
}

static ebb_status run_program(translator *t, int32_t program) {
    TRY(close_inputs(t));
    TRY(ebb__run_step(t->session, program));
    return open_inputs(t);
}

/* The sources of the pool's next `count` sentences as the program reads them. */
static ebb_status put_sources(translator *t, int32_t length, int32_t count) {
    const run_place places[] = {t->src, t->read_len};
    void *to[2];
    TRY(ebb__run_map_all(t->session, places, 2, DEVICE_WRITE, to));
    int32_t *src = to[0], *lengths = to[1];
    for (int32_t row = 0; row < t->read_rows; row++) {
        const sentence *s = row < count ? &t->pool[t->order[t->next + row]] : NULL;
        lengths[row] = s != NULL ? s->length : 0;
        for (int32_t p = 0; p < length; p++) {
            src[(length - 1 - p) * t->read_rows + row] =
                s != NULL && p < s->length ? t->cells[s->source + p] : VOCAB_EOS;
        }
    }
    return ebb__run_unmap_all(t->session, places, 2, DEVICE_WRITE, to);
}

/* What was read for `count` sentences becomes the memory of free slots. Sentence i of them goes to
 * the i-th free slot, lowest first: read_sentences() gives slots in the same order. */
static ebb_status keep_memory(translator *t, int32_t program, int32_t length, int32_t count,
                              int32_t member) {
    const run_place read[] = {
        ebb__run_find_output(t->session, program, ebb__nmt_member(NMT_READ_MEMORY, member).text),
        ebb__run_find_output(t->session, program, ebb__nmt_member(NMT_READ_KEYS, member).text)};
    const run_place kept[] = {t->memory[member], t->keys[member]};
    void *from[2], *to[2];
    ebb_status status;
    TRY(ebb__run_map_all(t->session, read, 2, DEVICE_READ, from));
    TRY_OUT(ebb__run_map_all(t->session, kept, 2, BOTH, to));
    for (int32_t row = 0, at = -1; row < count; row++) {
        int32_t n = t->pool[t->order[t->next + row]].length;
        at = free_slot(t, at + 1);
        copy_memory(t, from[0], to[0], length, row, at, n);
        copy_memory(t, from[1], to[1], length, row, at, n);
    }
    TRY_OUT(ebb__run_unmap_all(t->session, kept, 2, BOTH, to));
out:;
    ebb_status unmapped = ebb__run_unmap_all(t->session, read, 2, DEVICE_READ, from);
    return status == EBB_OK ? unmapped : status;
}

/* Reads the next sentences of the pool, at most read_rows, all into free slots. */
static ebb_status read_sentences(translator *t, int32_t count) {
    int32_t which = which_length(t, t->pool[t->order[t->next]].length), length = t->lengths[which];
    int32_t program = t->reads[which];
    TRY(put_sources(t, length, count));
    TRY(run_program(t, program));
    for (int32_t member = 0; member < members_of(t->o); member++) {
        TRY(keep_memory(t, program, length, count, member));
    }
    for (int32_t row = 0; row < count; row++) {
        int32_t at = free_slot(t, 0);
        TRY(start_sentence(t, t->order[t->next++], at));
        TRY(start_state(t, program, row, at));
    }
    return EBB_OK;
}

/* Sentences are read when an eighth of the slots is free, so that reading is worth it. */
static ebb_status fill_slots(translator *t) {
    int32_t free = t->o->slots - t->n_active;
    while (t->next < t->n_ordered && free > 0 && (free >= t->read_rows || t->n_active == 0)) {
        int64_t left = t->n_ordered - t->next;
        int32_t count = free < t->read_rows ? free : t->read_rows;
        TRY(read_sentences(t, left < count ? (int32_t)left : count));
        free = t->o->slots - t->n_active;
    }
    return EBB_OK;
}

/* ---- steps ---- */

/* The weights of hypothesis k, of [K*S, B], time descending: as `source` numbers of a node. */
static void keep_node_weights(translator *t, const float *from, int32_t length, int32_t at,
                              int32_t k, int32_t node) {
    int32_t source = t->pool[t->slots[at].sentence].length, best = 0;
    int64_t number = (int64_t)at * t->most_nodes + node;
    float *to = t->o->attention ? t->weights + number * t->o->max_src : NULL, most = -1;
    for (int32_t p = 0; p < source; p++) {
        float weight = from[(int64_t)(k * length + length - 1 - p) * t->o->slots + at];
        if (to != NULL) {
            to[p] = weight;
        }
        if (weight > most && p < source - 1) {
            most = weight;
            best = p;
        }
    }
    if (t->o->attended) {
        t->seen[number] = best;
    }
}

/* Every new node follows the last node of one hypothesis: it gets that one's weights. */
static void keep_weights(translator *t, const float *from, int32_t length, int32_t at,
                         int32_t n_before, int32_t first) {
    const beam_search *search = &t->slots[at].search;
    for (int32_t node = first; node < search->n_nodes; node++) {
        for (int32_t k = 0; k < n_before; k++) {
            if (search->nodes[node].parent == t->before[k]) {
                keep_node_weights(t, from, length, at, k, node);
            }
        }
    }
}

/* What the search found goes to the pool, and the slot is free. */
static void finish(translator *t, int32_t at) {
    slot *s = &t->slots[at];
    sentence *of = &t->pool[s->sentence];
    int32_t limit = s->search.o.limit;
    int64_t to = of->source + of->length;
    of->n_found = s->search.n_done < t->o->nbest ? s->search.n_done : t->o->nbest;
    for (int32_t i = 0; i < of->n_found; i++) {
        const beam_done *done = &s->search.done[i];
        found *f = &t->results[(int64_t)s->sentence * t->o->nbest + i];
        *f = (found){.log_prob = done->log_prob,
                     .score = done->score,
                     .ended = done->ended,
                     .tokens = to,
                     .attended = to + limit,
                     .attention = to + limit + (t->o->attended ? limit : 0)};
        f->length = ebb__beam_tokens(&s->search, done, t->cells + to, t->nodes);
        for (int32_t j = 0; t->o->attended && j < f->length; j++) {
            t->cells[f->attended + j] = t->seen[(int64_t)at * t->most_nodes + t->nodes[j]];
        }
        for (int32_t j = 0; t->o->attention && j < f->length + f->ended; j++) {
            memcpy(t->cells + f->attention + (int64_t)j * of->length,
                   t->weights + ((int64_t)at * t->most_nodes + t->nodes[j]) * t->o->max_src,
                   (size_t)of->length * sizeof(float));
        }
        to = f->attention + (t->o->attention ? (int64_t)limit * of->length : 0);
    }
    s->sentence = -1;
    t->input[IN_LEN][at] = 0;
    t->n_active--;
    clear_hypotheses(t, at, 0);
}

/* Outputs of a step: of every hypothesis the likeliest tokens, their log probabilities and, if
 * asked for, its attention weights. */
enum { OUT_LOGS, OUT_IDS, OUT_WEIGHTS, STEP_OUTPUTS };

static void move_on(translator *t, void *const *outputs, int32_t length, int32_t at) {
    beam_search *search = &t->slots[at].search;
    const float *logs = outputs[OUT_LOGS];
    const int32_t *ids = outputs[OUT_IDS];
    int32_t n_before = search->n_live, first = search->n_nodes, offers = t->offers;
    for (int32_t k = 0; k < n_before; k++) {
        int64_t row = ((int64_t)k * t->o->slots + at) * offers;
        memcpy(t->logs + k * offers, logs + row, (size_t)offers * sizeof *logs);
        memcpy(t->tops + k * offers, ids + row, (size_t)offers * sizeof *ids);
        t->before[k] = search->live[k].node;
    }
    ebb__beam_step(search, t->logs, t->tops, offers, t->parents, t->tokens);
    if (t->o->attention || t->o->attended) {
        keep_weights(t, outputs[OUT_WEIGHTS], length, at, n_before, first);
    }
    if (search->finished) {
        finish(t, at);
        return;
    }
    for (int32_t j = 0; j < search->n_live; j++) {
        set_hypothesis(t, at, j, t->parents[j], t->tokens[j]);
    }
    clear_hypotheses(t, at, search->n_live);
}

static ebb_status step(translator *t) {
    int32_t longest = 1;
    for (int32_t at = 0; at < t->o->slots; at++) {
        longest = t->input[IN_LEN][at] > longest ? t->input[IN_LEN][at] : longest;
    }
    int32_t which = which_length(t, longest), program = t->steps[which];
    const run_place places[STEP_OUTPUTS] = {
        [OUT_LOGS] = ebb__run_find_output(t->session, program, NMT_STEP_LOGS),
        [OUT_IDS] = ebb__run_find_output(t->session, program, NMT_STEP_IDS),
        [OUT_WEIGHTS] = ebb__run_find_output(t->session, program, NMT_STEP_ATTENTION)};
    void *outputs[STEP_OUTPUTS];
    TRY(run_program(t, program));
    TRY(ebb__run_map_all(t->session, places, STEP_OUTPUTS, DEVICE_READ, outputs));
    for (int32_t at = 0; at < t->o->slots; at++) {
        if (t->slots[at].sentence >= 0) {
            move_on(t, outputs, t->lengths[which], at);
        }
    }
    return ebb__run_unmap_all(t->session, places, STEP_OUTPUTS, DEVICE_READ, outputs);
}

static ebb_status translate_pool(translator *t) {
    TRY(fill_slots(t));
    while (t->n_active > 0) {
        if (t->io->stop != NULL && t->io->stop(t->io->user)) {
            return ebb__fail(t->session->ctx, EBB_STOPPED, "stopped while translating");
        }
        TRY(step(t));
        TRY(fill_slots(t));
    }
    return EBB_OK;
}

/* ---- the whole ---- */

static ebb_status begin(translator *t, translate_uses uses) {
    run_session *session = t->session;
    (void)lay_out(t, ebb__run_host(session, TRANSLATE_ROOM, NULL));
    t->read_rows = ebb__translate_read_rows(t->o);
    t->n_lengths = ebb__translate_lengths(t->o->max_src, t->lengths);
    for (int32_t i = 0; i < t->n_lengths; i++) {
        t->steps[i] = ebb__plan_program(session->plan, uses.step, i);
        t->reads[i] = ebb__plan_program(session->plan, uses.read, i);
    }
    t->src = ebb__run_find(session, NMT_READ_SRC);
    t->read_len = ebb__run_find(session, NMT_READ_LEN);
    for (int32_t i = 0; i < members_of(t->o); i++) {
        t->memory[i] = ebb__run_find(session, ebb__nmt_member(NMT_STEP_MEMORY, i).text);
        t->keys[i] = ebb__run_find(session, ebb__nmt_member(NMT_STEP_KEYS, i).text);
    }
    t->row_bytes = (size_t)(t->memory[0].bytes / ((uint64_t)t->o->max_src * (uint64_t)t->o->slots));
    t->input_at[IN_LEN] = ebb__run_find(session, NMT_STEP_LEN);
    t->input_at[IN_TOKEN] = ebb__run_find(session, NMT_STEP_TOKEN);
    t->input_at[IN_PARENT] = ebb__run_find(session, NMT_STEP_PARENT);
    const plan_output *logs = ebb__plan_output(session->plan, t->steps[0], NMT_STEP_LOGS);
    t->offers = logs->type.dim[1];
    TRY(open_inputs(t));
    for (int32_t at = 0; at < t->o->slots; at++) {
        t->slots[at].sentence = -1;
        t->input[IN_LEN][at] = 0;
        clear_hypotheses(t, at, 0);
    }
    return EBB_OK;
}

/* Pool after pool, until there are no more sentences. */
static ebb_status translate_all(translator *t) {
    bool end = false;
    while (!end) {
        TRY(fill_pool(t, &end));
        ebb_status status = translate_pool(t);
        TRY(write_pool(t));
        TRY(status);
    }
    return EBB_OK;
}

ebb_status ebb__translate(run_session *session, translate_uses uses,
                          const translate_options *options, const translate_io *io) {
    translator t = {.session = session, .o = options, .io = io};
    TRY(begin(&t, uses));
    ebb_status status = translate_all(&t);
    ebb_status closed = close_inputs(&t);
    return status == EBB_OK ? closed : status;
}
