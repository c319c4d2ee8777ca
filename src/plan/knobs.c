/* knobs.c - see knobs.h. */
#include "plan/knobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- packed copies of weights ---- */

static bool pack_way(const plan_reach *reach, int32_t i, plan_way *out) {
    (void)reach;
    out->knobs.pack = i > 0;
    return true;
}

static void describe_pack(const pass_knobs *knobs, bool again, char *text, size_t bytes) {
    (void)again;
    (void)snprintf(text, bytes, "%s", knobs->pack ? ", packed" : "");
}

/* ---- chunks of the loss: whole, then by 1024, 512, ... 8 rows ---- */

enum { MOST_ROWS = 1024, CHUNK_WAYS = 9, MOST_CHUNKS = 4096 /* more take long to plan */ };

static bool chunk_way(const plan_reach *reach, int32_t i, plan_way *out) {
    int32_t rows = i > 0 ? MOST_ROWS >> (i - 1) : 0;
    out->knobs.chunk_rows = rows;
    return i == 0 || (rows > 0 && rows < reach->rows && reach->rows / rows <= MOST_CHUNKS);
}

static void describe_chunk(const pass_knobs *knobs, bool again, char *text, size_t bytes) {
    (void)again;
    if (knobs->chunk_rows > 0) {
        (void)snprintf(text, bytes, ", loss by %" PRId32 " rows", knobs->chunk_rows);
    }
}

/* ---- weight gradients in slices ---- */

/* A way to go on in parts, as chunks are: where these are not wanted it is not either. */
static bool slices_way(const plan_reach *reach, int32_t i, plan_way *out) {
    out->knobs.slices = i > 0;
    return i == 0 || (reach->images > 0 && (reach->disabled >> PASS_CHUNK & 1) == 0);
}

static void describe_slices(const pass_knobs *knobs, bool again, char *text, size_t bytes) {
    (void)again;
    (void)snprintf(text, bytes, "%s", knobs->slices ? ", updates in slices" : "");
}

/* ---- chunks of images: segment by segment, or the net as a whole ---- */

static const struct {
    int32_t images;
    bool net;
} cuts[] = {{0, false}, {8, false}, {64, true}, {32, true}, {16, true}, {8, true}};
enum { MOST_CUTS = 512 }; /* each has the nodes of all its layers */

static bool cut_way(const plan_reach *reach, int32_t i, plan_way *out) {
    plan_chunks only = cuts[i].net ? CHUNKS_NET : CHUNKS_SEGMENT;
    out->knobs.chunk_images = cuts[i].images;
    out->knobs.chunk_net = cuts[i].net;
    return i == 0 ||
           (cuts[i].images < reach->images && reach->images / cuts[i].images <= MOST_CUTS &&
            (reach->chunks == only || reach->chunks == CHUNKS_AUTO));
}

static void describe_cut(const pass_knobs *knobs, bool again, char *text, size_t bytes) {
    (void)again;
    if (knobs->chunk_images > 0) {
        (void)snprintf(text, bytes, ", %s by %" PRId32 " images",
                       knobs->chunk_net ? "net" : "segments", knobs->chunk_images);
    }
}

/* ---- codes ---- */

enum { SPARSE_WAY = 2 }; /* pass_knobs.encode */

static bool encode_way(const plan_reach *reach, int32_t i, plan_way *out) {
    bool gist = reach->encode == ENCODE_GIST;
    out->knobs.encode = i;
    out->knobs.decode = gist && i > 0;
    if (i <= 1) {
        return i == 0 || reach->images > 0 || reach->stash;
    }
    return reach->sparse && (!gist || i <= SPARSE_WAY);
}

static void describe_encode(const pass_knobs *knobs, bool again, char *text, size_t bytes) {
    (void)again;
    static const char *const words[] = {"", ", encoded", ", encoded and sparse",
                                        ", encoded and sparse throughout"};
    (void)snprintf(text, bytes, "%s", words[knobs->encode]);
}

/* ---- recomputation ---- */

#define ANY_PRICE 1e-6 /* a second for a megabyte: whatever may be repeated is */

/* Prices are seconds that a byte of stash is worth; the first is about what writing and reading it
 * takes. Where products may be repeated, each of which takes some nanoseconds a byte, the cheapest
 * go first.
 *
 * Then time in spans: no product repeated, but weight gradients and the loss as soon as a span is
 * done; products repeated with all of a span's steps as one; step by step with only the states
 * between spans kept. Last, with fewer of those states (nested), as long as shorter spans save
 * something. */
static const struct {
    double price;
    int32_t span; /* 1: twice the root of the time steps, and each more half of that; 0: none */
    bool scan, merge, heavy, replay, nested;
    uint64_t saving; /* see plan_way */
} ways[] = {
    {.price = 0},
    {.price = 1e-10},
    {.price = 4e-10},
    {.price = 2e-9},
    {.price = ANY_PRICE},
    {.price = ANY_PRICE, .scan = true},
    {.price = ANY_PRICE, .scan = true, .merge = true},
    {.price = 2.5e-9, .scan = true, .merge = true, .heavy = true},
    {.price = 3.5e-9, .scan = true, .merge = true, .heavy = true},
    {.price = 4.5e-9, .scan = true, .merge = true, .heavy = true},
    {.price = 6e-9, .scan = true, .merge = true, .heavy = true},
    {.price = ANY_PRICE, .span = 1},
    {.price = ANY_PRICE, .span = 1, .heavy = true},
    {.price = ANY_PRICE, .span = 1, .heavy = true, .replay = true},
    {.price = ANY_PRICE, .span = 2},
    {.price = ANY_PRICE, .span = 2, .heavy = true},
    {.price = ANY_PRICE, .span = 2, .heavy = true, .replay = true},
    {.price = ANY_PRICE, .span = 3},
    {.price = ANY_PRICE, .span = 3, .heavy = true},
    {.price = ANY_PRICE, .span = 3, .heavy = true, .replay = true},
    {ANY_PRICE, .span = 3, .heavy = true, .replay = true, .nested = true, .saving = 256},
    {ANY_PRICE, .span = 5, .heavy = true, .replay = true, .nested = true},
    {ANY_PRICE, .span = 7, .heavy = true, .replay = true, .nested = true, .saving = UINT64_MAX},
    {ANY_PRICE, .span = 9, .heavy = true, .replay = true, .nested = true, .saving = UINT64_MAX},
};

/* The least power of two whose square is at least n. */
static int32_t root_of(int32_t n) {
    int32_t r = 1;
    while ((int64_t)r * r < n) {
        r *= 2;
    }
    return r;
}

static bool recompute_way(const plan_reach *reach, int32_t i, plan_way *out) {
    int32_t root = root_of(reach->steps), span = ways[i].span > 0 ? 4 * root >> ways[i].span : 0;
    pass_knobs *k = &out->knobs;
    k->price = ways[i].price;
    k->scan = ways[i].scan ? root : 0;
    k->merge = ways[i].merge ? 2 * root : 0;
    k->span = span;
    k->outer = ways[i].nested && span > 0 ? root_of(reach->steps / span) : 0;
    k->heavy = ways[i].heavy;
    k->replay = ways[i].replay;
    out->chained = ways[i].replay;
    out->saving = ways[i].saving;
    if (ways[i].nested) {
        return span >= 4 && reach->steps >= 64;
    }
    if (reach->images > 0) {
        return i == 0; /* the next knob's business */
    }
    return ways[i].span > 0 ? span >= 2 && span < reach->steps : !k->scan || reach->steps >= 2;
}

static void describe_recompute(const pass_knobs *k, bool again, char *text, size_t bytes) {
    if (k->places > 0 || (k->price <= 0 && k->offload > 0)) {
        return; /* the next knob's business, or the last one's */
    }
    if (k->replay) {
        (void)snprintf(text, bytes, ", replay %" PRId32 " steps%s", k->span,
                       k->outer > 0 ? " twice" : "");
    } else if (k->heavy && k->span > 0) {
        (void)snprintf(text, bytes, ", products by %" PRId32 " steps", k->span);
    } else if (k->span > 0) {
        (void)snprintf(text, bytes, ", spans of %" PRId32 " steps", k->span);
    } else if (k->heavy) {
        (void)snprintf(text, bytes, ", cheap products again");
    } else if (k->scan > 0) {
        (void)snprintf(text, bytes, ", state every %" PRId32 " steps", k->scan);
    } else if (again) {
        (void)snprintf(text, bytes, ", recompute");
    }
}

/* ---- recomputation along the depth of a net ---- */

/* Places of a net over images (ir_label.at) follow each other by themselves. What a place hands on
 * is kept every so many of them, and between these whatever is worth it is repeated: pointwise work
 * first, then convolutions, from those with few inputs and many outputs to the others. */
enum { ALL_PLACES = 1 << 20 }; /* more than a net has: nothing is kept for being handed on */
static const struct {
    double price;
    int32_t places;
    bool heavy;
} first_ways[] = {{1e-10, ALL_PLACES, false},     {4e-10, ALL_PLACES, false},
                  {ANY_PRICE, ALL_PLACES, false}, {ANY_PRICE, 1, false},
                  {ANY_PRICE, 2, false},          {ANY_PRICE, 4, false},
                  {1e-9, ALL_PLACES, true}}; /* the first layers' convolutions, of few inputs */
/* With convolutions: every price with each of the rooms of groups of places and the first few
 * numbers of places, then other numbers, for depths beyond a hundred places, at any price. */
static const double heavy_prices[] = {2e-10, 3e-10, 4e-10,  6e-10, 8e-10, 1.1e-9, 1.5e-9,
                                      2e-9,  3e-9,  4.5e-9, 6e-9,  9e-9,  1.2e-8, ANY_PRICE};
static const struct {
    int32_t places;
    double room;
} heavy_groups[] = {{.places = 1}, {.places = 2}, {.places = 3},  {.places = 4}, {.places = 5},
                    {.places = 6}, {.room = 1},   {.room = 1.2},  {.room = 1.3}, {.room = 1.75},
                    {.room = 3},   {.places = 8}, {.places = 16}, {.places = 32}};
enum {
    FIRST_WAYS = sizeof first_ways / sizeof *first_ways,
    PRICES = sizeof heavy_prices / sizeof *heavy_prices,
    GROUPS = sizeof heavy_groups / sizeof *heavy_groups,
    OTHERS = 3, /* of the groups */
    PRICED = GROUPS - OTHERS,
    MANY_PLACES = 150,
    DEPTH_WAYS = 1 + FIRST_WAYS + PRICES * PRICED + OTHERS
};

/* Way 0 leaves the settings that it shares with recompute as that has them. */
static bool depth_way(const plan_reach *reach, int32_t i, plan_way *out) {
    pass_knobs *k = &out->knobs;
    int32_t heavy = i - 1 - FIRST_WAYS, other = heavy - PRICES * PRICED;
    k->places = 0;
    k->room = 0;
    if (i == 0) {
        return true;
    }
    k->heavy = heavy >= 0 || first_ways[i - 1].heavy;
    if (heavy < 0) {
        k->price = first_ways[i - 1].price;
        k->places = first_ways[i - 1].places;
    } else {
        int32_t group = other < 0 ? heavy % PRICED : PRICED + other;
        k->price = other < 0 ? heavy_prices[heavy / PRICED] : ANY_PRICE;
        k->room = heavy_groups[group].room;
        k->places = k->room > 0 ? ALL_PLACES : heavy_groups[group].places;
    }
    /* Of a deep net, plans lie closer and take longer to find. */
    bool skipped = reach->steps > MANY_PLACES && heavy >= 0 && other < 0 && heavy / PRICED % 6 != 1;
    bool between = k->room > 0 && heavy / PRICED % 2 != 0; /* the cut of a group differs less */
    return reach->images > 0 && (k->places == ALL_PLACES || k->places < reach->steps) &&
           !(k->heavy && skipped) && !between;
}

static void describe_depth(const pass_knobs *k, bool again, char *text, size_t bytes) {
    const char *what = k->heavy ? "convolutions again" : "recompute";
    (void)again;
    if (k->room > 0) {
        (void)snprintf(text, bytes, ", %s by groups of places", what);
    } else if (k->places == ALL_PLACES) {
        (void)snprintf(text, bytes, ", %s", k->heavy ? "cheap convolutions again" : "recompute");
    } else if (k->places > 0) {
        (void)snprintf(text, bytes, ", %s from every %" PRId32 ". place", what, k->places);
    }
}

/* ---- what waits outside the device's memory ---- */

/* Shares of what waits; then with time in spans, so that neither products of all time steps nor
 * sums over them ask for all of it at once, if recomputation has no spans of its own. */
static const struct {
    int32_t percent, span; /* span: as in the ways above */
} offloads[] = {{0, 0}, {25, 0}, {50, 0}, {75, 0}, {100, 0}, {50, 1}, {100, 1}, {100, 2}};
enum { OFFLOAD_LEAST = 16 << 10 }; /* smaller ones take more time to move than room */

static bool offload_way(const plan_reach *reach, int32_t i, plan_way *out) {
    pass_knobs *k = &out->knobs;
    int32_t span = offloads[i].span > 0 ? 4 * root_of(reach->steps) >> offloads[i].span : 0;
    k->offload = offloads[i].percent;
    k->offload_least = k->offload > 0 ? OFFLOAD_LEAST : 0;
    if (span > 0 && k->span == 0) {
        k->span = span;
    }
    return span == 0 || (reach->images == 0 && span >= 2 && span < reach->steps);
}

static void describe_offload(const pass_knobs *knobs, bool again, char *text, size_t bytes) {
    (void)again;
    if (knobs->offload > 0) {
        bool own = knobs->span > 0 && knobs->price <= 0;
        char spans[40] = "";
        if (own) {
            (void)snprintf(spans, sizeof spans, " in spans of %" PRId32 " steps", knobs->span);
        }
        (void)snprintf(text, bytes, ", %" PRId32 "%% of the stash offloaded%s", knobs->offload,
                       spans);
    }
}

/* ---- the table ---- */

static const plan_knob table[] = {
    {"pack", PASS_LAYOUT, false, 2, pack_way, describe_pack},
    {"chunk", PASS_CHUNK, false, CHUNK_WAYS, chunk_way, describe_chunk},
    {"slices", PASS_SLICES, true, 2, slices_way, describe_slices},
    {"encode", PASS_ENCODE, true, 4, encode_way, describe_encode},
    {"images", PASS_CHUNK, false, sizeof cuts / sizeof *cuts, cut_way, describe_cut},
    {"recompute", PASS_RECOMPUTE, true, sizeof ways / sizeof *ways, recompute_way,
     describe_recompute},
    {"depth", PASS_RECOMPUTE, true, DEPTH_WAYS, depth_way, describe_depth},
    {"offload", PASS_OFFLOAD, true, sizeof offloads / sizeof *offloads, offload_way,
     describe_offload},
};
enum { N_KNOBS = sizeof table / sizeof *table };
_Static_assert((int)N_KNOBS > PLAN_KNOB_SERIES && (int)N_KNOBS <= PLAN_MAX_KNOBS,
               "the walk's first rows");

plan_grid ebb__knobs_grid(plan_reach reach) {
    return (plan_grid){table, N_KNOBS, reach};
}

bool ebb__knobs_way(const plan_grid *grid, int32_t knob, int32_t i, plan_way *out) {
    const plan_knob *row = &grid->knobs[knob];
    bool wanted =
        grid->reach.encode == ENCODE_AUTO || knob == PLAN_KNOB_WHOLE || row->pass == PASS_ENCODE;
    bool there = i == 0 || (wanted && (grid->reach.disabled >> row->pass & 1) == 0);
    out->chained = false;
    out->saving = 0;
    return row->way(&grid->reach, i, out) && there;
}

pass_knobs ebb__knobs_at(const plan_grid *grid, const int32_t at[PLAN_MAX_KNOBS]) {
    plan_way way = {.saving = 0};
    for (int32_t k = 0; k < grid->n_knobs; k++) {
        (void)ebb__knobs_way(grid, k, at[k], &way);
    }
    return way.knobs;
}

/* What saves most is said first. */
void ebb__knobs_describe(const pass_knobs *knobs, bool again, char *text, size_t bytes) {
    char all[256] = "";
    for (int32_t k = N_KNOBS - 1; k >= 0; k--) {
        size_t used = strlen(all);
        table[k].describe(knobs, again, all + used, sizeof all - used);
    }
    (void)snprintf(text, bytes, "%s", all[0] == '\0' ? "all kept" : all + 2); /* a comma */
}

void ebb__knobs_spend(pass_knobs *knobs, pass_id next) {
#define SPEND(type, name, last)                                                                    \
    if (last < next) {                                                                             \
        knobs->name = 0;                                                                           \
    }
    PASS_KNOB_LIST(SPEND)
#undef SPEND
}

uint64_t ebb__knobs_hash(const pass_knobs *knobs) {
#define NUMBER(type, name, last) (double)knobs->name,
    const double all[] = {PASS_KNOB_LIST(NUMBER)};
#undef NUMBER
    return XXH3_64bits(all, sizeof all);
}
