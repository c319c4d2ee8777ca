/* image_set.c - makes, checks and reads image sets (form: image_set.h).
 *
 * Making streams the images of the files once; their reader notices if they changed meanwhile.
 * Checking reads all records once and sums and hashes them anew: no label reaches a model
 * unchecked, not even from a file made to deceive. */
#include "data/image_set.h"

#include "base/num.h"
#include "data/image_reader.h"
#include "data/sink.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

enum { CHUNK_BYTES = 256 << 10, NAMES_MOST = 1 << 20 };

/* Fields of 64 bits, in the order of the file. */
enum {
    FIELD_MAGIC,
    FIELD_VERSION,
    FIELD_COUNT,
    FIELD_HEIGHT,
    FIELD_WIDTH,
    FIELD_CHANNELS,
    FIELD_CLASSES,
    FIELD_SIDE_SHARE, /* side, share << 32 */
    FIELD_SEED,
    FIELD_SOURCE_BYTES,
    FIELD_SOURCE_HASH,
    FIELD_NAMES_BYTES,
    FIELD_NAMES_HASH,
    FIELD_SUMS, /* by channel; 0 where there is none */
    FIELD_SQUARES = FIELD_SUMS + IMAGE_MOST_CHANNELS,
    FIELD_RECORDS_HASH = FIELD_SQUARES + IMAGE_MOST_CHANNELS,
    FIELD_TRAILER_HASH, /* of the fields before */
    FIELDS
};
_Static_assert(FIELDS == 23, "as image_set.h tells");
static const char magic[8] = "EBBIMAGE";
static const uint64_t version = 1;

typedef struct set_trailer {
    uint64_t field[FIELDS]; /* little-endian, as in the file */
} set_trailer;

static void set_field(set_trailer *trailer, int which, uint64_t value) {
    trailer->field[which] = htole64(value);
}

static uint64_t get_field(const set_trailer *trailer, int which) {
    return le64toh(trailer->field[which]);
}

static uint64_t trailer_hash(const set_trailer *trailer) {
    return XXH3_64bits(trailer->field, FIELD_TRAILER_HASH * sizeof trailer->field[0]);
}

/* A trailer with the fields that say what the set must be made of. */
static ebb_status describe(const image_files *files, const image_choice *choice, set_trailer *out) {
    uint32_t classes = choice->classes != 0 ? choice->classes : files->classes;
    bool split = choice->side != IMAGE_ALL;
    if (classes > IMAGE_MOST_CLASSES || files->classes > classes) {
        return ebb__fail(files->ctx, EBB_DATA,
                         "image file %s: has labels of %u classes, but there are %u (at most %d)",
                         files->at[0].path, files->classes, classes, IMAGE_MOST_CLASSES);
    }
    *out = (set_trailer){{0}};
    memcpy(&out->field[FIELD_MAGIC], magic, sizeof magic);
    set_field(out, FIELD_VERSION, version);
    set_field(out, FIELD_HEIGHT, files->size.height);
    set_field(out, FIELD_WIDTH, files->size.width);
    set_field(out, FIELD_CHANNELS, files->size.channels);
    set_field(out, FIELD_CLASSES, classes);
    set_field(out, FIELD_SIDE_SHARE, split ? (uint64_t)choice->share << 32 | choice->side : 0);
    set_field(out, FIELD_SEED, split ? choice->seed : 0);
    set_field(out, FIELD_SOURCE_BYTES, files->bytes);
    set_field(out, FIELD_SOURCE_HASH, files->hash);
    set_field(out, FIELD_NAMES_BYTES, files->names_bytes);
    set_field(out, FIELD_NAMES_HASH, XXH3_64bits(files->names, files->names_bytes));
    return EBB_OK;
}

/* ---- facts ---- */

double ebb__image_mean(const image_facts *facts, uint32_t channel) {
    uint64_t n = facts->count * facts->size.height * facts->size.width;
    return (double)facts->sums[channel] / (double)n;
}

/* With pixels counted from the whole part of their mean, so that nothing cancels. */
double ebb__image_deviation(const image_facts *facts, uint32_t channel) {
    uint64_t n = facts->count * facts->size.height * facts->size.width;
    uint64_t sum = facts->sums[channel], whole = sum / n, rest = sum % n;
    uint64_t squares = facts->squares[channel] - whole * (sum + rest);
    double part = (double)rest / (double)n;
    return sqrt((double)squares / (double)n - part * part);
}

/* One more image: its record in two parts. */
static void add_image(image_facts *facts, XXH3_state_t *hash, const uint8_t label[IMAGE_LABEL],
                      const uint8_t *pixels) {
    size_t bytes = image_bytes(&facts->size), step = facts->size.channels;
    XXH3_64bits_update(hash, label, IMAGE_LABEL);
    XXH3_64bits_update(hash, pixels, bytes);
    for (size_t c = 0; c < step; c++) {
        uint64_t sum = 0, squares = 0;
        for (size_t i = c; i < bytes; i += step) {
            uint32_t pixel = pixels[i];
            sum += pixel;
            squares += pixel * pixel;
        }
        facts->sums[c] += sum;
        facts->squares[c] += squares;
    }
    facts->count++;
}

static void end_facts(image_facts *facts, const XXH3_state_t *hash, set_trailer *trailer) {
    facts->hash = XXH3_64bits_digest(hash);
    set_field(trailer, FIELD_COUNT, facts->count);
    for (int c = 0; c < IMAGE_MOST_CHANNELS; c++) {
        set_field(trailer, FIELD_SUMS + c, facts->sums[c]);
        set_field(trailer, FIELD_SQUARES + c, facts->squares[c]);
    }
    set_field(trailer, FIELD_RECORDS_HASH, facts->hash);
}

/* Images that are read at a time. */
static size_t chunk_of(size_t bytes) {
    return (size_t)num_larger(CHUNK_BYTES / bytes, 1);
}

/* ---- making ---- */

typedef struct set_maker {
    const image_files *files;
    const image_choice *choice;
    data_sink *sink;   /* NULL: only the facts are wanted */
    image_split split; /* unless all images are taken */
    XXH3_state_t hash; /* of the records so far */
    image_facts facts;
} set_maker;

static ebb_status put_image(set_maker *maker, const uint8_t *pixels, int32_t label) {
    bool held = maker->choice->side != IMAGE_ALL && ebb__image_split_next(&maker->split, label);
    if (maker->choice->side != IMAGE_ALL && held != (maker->choice->side == IMAGE_HELD)) {
        return EBB_OK;
    }
    uint32_t word = htole32((uint32_t)label);
    uint8_t bytes[IMAGE_LABEL];
    memcpy(bytes, &word, sizeof bytes);
    add_image(&maker->facts, &maker->hash, bytes, pixels);
    if (maker->sink == NULL) {
        return EBB_OK;
    }
    TRY(ebb__sink_put(maker->sink, bytes, sizeof bytes));
    return ebb__sink_put(maker->sink, pixels, image_bytes(&maker->facts.size));
}

static ebb_status put_images(set_maker *maker, image_reader *reader) {
    ebb_status status;
    ebb_ctx *ctx = maker->files->ctx;
    size_t each = image_bytes(&maker->files->size), most = chunk_of(each), n = 0;
    uint8_t *pixels = NULL;
    int32_t *labels = NULL;
    TRY_OUT(ebb__alloc(ctx, most, each, &pixels));
    TRY_OUT(ebb__alloc(ctx, most, sizeof *labels, &labels));
    do {
        TRY_OUT(ebb__image_reader_next(reader, most, pixels, labels, &n));
        for (size_t i = 0; i < n; i++) {
            TRY_OUT(put_image(maker, pixels + i * each, labels[i]));
        }
    } while (n > 0);
out:
    ebb__free(ctx, labels);
    ebb__free(ctx, pixels);
    return status;
}

static ebb_status check_count(const set_maker *maker, uint64_t bad) {
    if (bad == maker->files->count) {
        return ebb__fail(maker->files->ctx, EBB_DATA,
                         "image file %s: neither this nor any other of the %llu images could be "
                         "decoded",
                         maker->files->at[0].path, (unsigned long long)bad);
    }
    return maker->facts.count > 0
               ? EBB_OK
               : ebb__fail(
                     maker->files->ctx, EBB_DATA,
                     "image file %s: with a share of %g held back for validation, none of the "
                     "%llu images is left to %s; choose another share",
                     maker->files->at[0].path, maker->choice->share / (double)IMAGE_WHOLE,
                     (unsigned long long)maker->files->count,
                     maker->choice->side == IMAGE_HELD ? "validate on" : "train on");
}

/* All records, into the maker's sink if it has one, and the trailer of described fields filled up.
 */
static ebb_status make_records(set_maker *maker, set_trailer *trailer) {
    ebb_status status;
    const image_files *files = maker->files;
    image_reader reader;
    XXH3_64bits_reset(&maker->hash);
    maker->facts =
        (image_facts){.size = files->size, .classes = (uint32_t)get_field(trailer, FIELD_CLASSES)};
    TRY(ebb__image_reader_open(files, maker->sink != NULL ? "make images" : "check images",
                               &reader));
    if (maker->choice->side != IMAGE_ALL) {
        TRY_OUT(ebb__image_split_init(files->ctx, maker->choice->seed, maker->choice->share,
                                      maker->facts.classes, &maker->split));
    }
    TRY_OUT(put_images(maker, &reader));
    TRY_OUT(check_count(maker, reader.bad));
    end_facts(&maker->facts, &maker->hash, trailer);
    set_field(trailer, FIELD_TRAILER_HASH, trailer_hash(trailer));
out:
    ebb__image_split_free(&maker->split);
    ebb__image_reader_close(&reader);
    return status;
}

/* Fills `sink`, which the caller commits, takes or closes. */
static ebb_status fill(const image_files *files, const image_choice *choice, data_sink *sink,
                       set_trailer *trailer) {
    set_maker maker = {
        .files = files, .choice = choice, .sink = sink, .split = {.ctx = files->ctx}};
    TRY(make_records(&maker, trailer));
    TRY(ebb__sink_put(sink, files->names, files->names_bytes));
    return ebb__sink_put(sink, trailer, sizeof *trailer);
}

static ebb_status make(const image_files *files, const image_choice *choice, const char *path,
                       set_trailer *trailer) {
    ebb_status status;
    data_sink sink;
    TRY(ebb__sink_open(files->ctx, path, &sink));
    TRY_OUT(fill(files, choice, &sink, trailer));
    TRY_OUT(ebb__sink_commit(&sink));
out:
    ebb__sink_close(&sink);
    return status;
}

ebb_status ebb__image_set_measure(const image_files *files, const image_choice *choice,
                                  image_facts *out) {
    set_maker maker = {.files = files, .choice = choice, .split = {.ctx = files->ctx}};
    set_trailer trailer;
    TRY(describe(files, choice, &trailer));
    TRY(make_records(&maker, &trailer));
    *out = maker.facts;
    return EBB_OK;
}

/* ---- checking ---- */

/* Whether the sizes of a trailer are possible, and those of the file; they are taken over. */
static bool take_sizes(image_set *set, const set_trailer *trailer) {
    uint64_t count = get_field(trailer, FIELD_COUNT), names = get_field(trailer, FIELD_NAMES_BYTES);
    uint64_t classes = get_field(trailer, FIELD_CLASSES);
    uint32_t *const sides[] = {&set->facts.size.height, &set->facts.size.width,
                               &set->facts.size.channels};
    for (int i = 0; i < 3; i++) {
        uint64_t side = get_field(trailer, FIELD_HEIGHT + i);
        *sides[i] = side <= IMAGE_MOST_SIDE ? (uint32_t)side : 0;
    }
    if (count == 0 || !ebb__image_size_sound(&set->facts.size, count) || classes == 0 ||
        classes > IMAGE_MOST_CLASSES || names > NAMES_MOST) {
        return false;
    }
    set->facts.count = count;
    set->facts.classes = (uint32_t)classes;
    set->names_bytes = (size_t)names;
    set->record_bytes = IMAGE_LABEL + image_bytes(&set->facts.size);
    return count * set->record_bytes + names + sizeof *trailer == set->file_bytes;
}

/* Why the trailer is not the one wanted, which may be NULL: any; NULL if it is. */
static const char *trailer_trouble(image_set *set, const set_trailer *found,
                                   const set_trailer *want) {
    if (memcmp(&found->field[FIELD_MAGIC], magic, sizeof magic) != 0) {
        return "is not an image set";
    }
    if (get_field(found, FIELD_TRAILER_HASH) != trailer_hash(found)) {
        return "is damaged";
    }
    if (get_field(found, FIELD_VERSION) != version) {
        return "has another version";
    }
    if (want != NULL && memcmp(&found->field[FIELD_HEIGHT], &want->field[FIELD_HEIGHT],
                               (FIELD_SUMS - FIELD_HEIGHT) * sizeof found->field[0]) != 0) {
        return "was made of other files, or of other images of them";
    }
    return take_sizes(set, found) ? NULL : "has not the size it tells";
}

/* Sums, hash and number of all records; *sound: whether all labels are in range. */
static ebb_status check_records(const image_set *set, uint8_t *records, image_facts *facts,
                                XXH3_state_t *hash, bool *sound) {
    uint64_t count = set->facts.count, most = chunk_of(set->record_bytes);
    for (uint64_t first = 0; first < count; first += most) {
        uint64_t part = count - first < most ? count - first : most;
        TRY(ebb__poll_stop(set->ctx, set->path));
        TRY(ebb__file_pread(set->ctx, set->fd, set->path, records, (size_t)part * set->record_bytes,
                            first * set->record_bytes));
        for (size_t i = 0; i < part; i++) {
            const uint8_t *record = records + i * set->record_bytes;
            uint32_t label;
            memcpy(&label, record, sizeof label);
            *sound = *sound && le32toh(label) < facts->classes;
            add_image(facts, hash, record, record + IMAGE_LABEL);
        }
        ebb__progress(set->ctx, "check images", first + part, count);
    }
    return EBB_OK;
}

/* Whether they are at most one a class, each of which can be shown, with a zero byte at its end. */
static bool are_names(const char *names, size_t bytes, uint32_t classes) {
    size_t at = 0;
    uint32_t found = 0;
    while (at < bytes) {
        size_t length = strnlen(names + at, bytes - at);
        if (length == bytes - at || !ebb__image_name_sound(names + at, length)) {
            return false;
        }
        at += length + 1;
        found++;
    }
    return found <= classes;
}

/* Reads the names, which the set holds from here on. */
static ebb_status take_names(image_set *set, set_trailer *found, bool *sound) {
    size_t bytes = set->names_bytes;
    if (bytes > 0) {
        TRY(ebb__alloc(set->ctx, bytes, 1, &set->names));
        TRY(ebb__file_pread(set->ctx, set->fd, set->path, set->names, bytes,
                            set->facts.count * set->record_bytes));
    }
    set_field(found, FIELD_NAMES_HASH, XXH3_64bits(set->names, bytes));
    *sound = *sound && are_names(set->names, bytes, set->facts.classes);
    return EBB_OK;
}

/* Whether the file holds what its trailer tells. */
static ebb_status check_content(image_set *set, const set_trailer *told, const char **why) {
    ebb_status status;
    XXH3_state_t hash;
    set_trailer found = *told;
    image_facts facts = {.size = set->facts.size, .classes = set->facts.classes};
    uint8_t *records = NULL;
    bool sound = true;
    XXH3_64bits_reset(&hash);
    TRY_OUT(take_names(set, &found, &sound));
    TRY_OUT(ebb__alloc(set->ctx, chunk_of(set->record_bytes), set->record_bytes, &records));
    TRY_OUT(check_records(set, records, &facts, &hash, &sound));
    end_facts(&facts, &hash, &found);
    set->facts = facts;
    if (!sound || memcmp(&found, told, sizeof found) != 0) {
        *why = "is damaged";
    }
out:
    ebb__free(set->ctx, records);
    return status;
}

/* Believes the open file if it is the one wanted (NULL: any); *why says otherwise why not, and it
 * is closed. */
static ebb_status check_opened(image_set *out, const set_trailer *want, const char **why) {
    ebb_status status = EBB_OK;
    set_trailer found;
    *why = NULL;
    if (out->file_bytes < sizeof found) {
        *why = "is not an image set";
        goto out;
    }
    TRY_OUT(ebb__file_pread(out->ctx, out->fd, out->path, &found, sizeof found,
                            out->file_bytes - sizeof found));
    *why = trailer_trouble(out, &found, want);
    if (*why == NULL) {
        TRY_OUT(check_content(out, &found, why));
    }
out:
    if (status != EBB_OK || *why != NULL) {
        ebb__image_set_close(out);
    }
    return status;
}

static ebb_status open_checked(image_set *out, const set_trailer *want, const char **why) {
    if (!ebb__file_exists(out->path)) {
        *why = "does not exist yet";
        return EBB_OK;
    }
    TRY(ebb__file_open(out->ctx, out->path, &out->fd, &out->file_bytes));
    return check_opened(out, want, why);
}

/* ---- opening ---- */

static ebb_status begin(ebb_ctx *ctx, const char *path, image_set *out) {
    *out = (image_set){.ctx = ctx, .fd = -1};
    int length = snprintf(out->path, sizeof out->path, "%s", path);
    return length >= 0 && (size_t)length < sizeof out->path
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE, "image set %.64s...: the path is too long", path);
}

/* What was just made; `bad` says what is wrong with it. */
static ebb_status take_made(image_set *out, const char *bad) {
    if (bad != NULL) {
        return ebb__fail(out->ctx, EBB_IO, "image set %s: was just written but %s; check the disk",
                         out->path, bad);
    }
    out->made = true;
    return EBB_OK;
}

ebb_status ebb__image_set_ensure(const image_files *files, const image_choice *choice,
                                 const char *set_path, image_set *out) {
    set_trailer trailer;
    const char *why = NULL;
    TRY(begin(files->ctx, set_path, out));
    TRY(describe(files, choice, &trailer));
    TRY(open_checked(out, &trailer, &why));
    if (why == NULL) {
        return EBB_OK;
    }
    ebb__log(files->ctx, EBB_LOG_DEBUG, "image set %s: %s; making it from %s", set_path, why,
             files->at[0].path);
    TRY(make(files, choice, set_path, &trailer));
    TRY(open_checked(out, &trailer, &why));
    return take_made(out, why);
}

ebb_status ebb__image_set_unnamed(const image_files *files, const image_choice *choice,
                                  const char *path, image_set *out) {
    ebb_status status;
    set_trailer trailer;
    data_sink sink = {.buffer = NULL};
    const char *why = NULL;
    TRY(begin(files->ctx, path, out));
    TRY_OUT(describe(files, choice, &trailer));
    TRY_OUT(ebb__sink_open_unnamed(files->ctx, path, &sink));
    TRY_OUT(fill(files, choice, &sink, &trailer));
    TRY_OUT(ebb__sink_take(&sink, &out->fd)); /* the file's only hold */
    out->file_bytes = sink.file.written;
    TRY_OUT(check_opened(out, &trailer, &why));
    status = take_made(out, why);
out:
    ebb__sink_close(&sink);
    return status;
}

ebb_status ebb__image_set_known(ebb_ctx *ctx, const char *path, bool *out) {
    set_trailer trailer;
    struct stat info;
    int fd = -1;
    uint64_t bytes = 0;
    *out = false;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return EBB_OK;
    }
    TRY(ebb__file_open(ctx, path, &fd, &bytes));
    ebb_status status = EBB_OK;
    if (bytes >= sizeof trailer) {
        status = ebb__file_pread(ctx, fd, path, &trailer, sizeof trailer, bytes - sizeof trailer);
        *out = status == EBB_OK && memcmp(&trailer.field[FIELD_MAGIC], magic, sizeof magic) == 0;
    }
    ebb__file_close(fd);
    return status;
}

ebb_status ebb__image_set_open(ebb_ctx *ctx, const char *set_path, image_set *out) {
    const char *why = NULL;
    TRY(begin(ctx, set_path, out));
    TRY(ebb__source_check(ctx, set_path));
    TRY(ebb__file_open(ctx, set_path, &out->fd, &out->file_bytes));
    TRY(check_opened(out, NULL, &why));
    return why == NULL ? EBB_OK
                       : ebb__fail(ctx, EBB_DATA, "image set %s: %s; make it again", set_path, why);
}

/* ---- reading ---- */

ebb_status ebb__image_set_read(const image_set *set, uint64_t number, uint8_t *record,
                               int32_t *label) {
    if (number >= set->facts.count) {
        return ebb__fail(set->ctx, EBB_INTERNAL, "image set %s: image %llu of %llu", set->path,
                         (unsigned long long)number, (unsigned long long)set->facts.count);
    }
    TRY(ebb__file_pread(set->ctx, set->fd, set->path, record, set->record_bytes,
                        number * set->record_bytes));
    uint32_t word;
    memcpy(&word, record, sizeof word);
    *label = (int32_t)le32toh(word);
    return le32toh(word) < set->facts.classes
               ? EBB_OK
               : ebb__fail(set->ctx, EBB_DATA,
                           "image set %s: was changed by somebody while in use; run again",
                           set->path);
}

const char *ebb__image_set_name(const image_set *set, int32_t label) {
    size_t at = 0;
    for (int32_t i = 0; i < label && at < set->names_bytes; i++) {
        at += strlen(set->names + at) + 1;
    }
    return label >= 0 && at < set->names_bytes ? set->names + at : NULL;
}

void ebb__image_set_close(image_set *set) {
    ebb__file_close(set->fd);
    set->fd = -1;
    ebb__free(set->ctx, set->names);
    set->names = NULL;
    set->names_bytes = 0;
}
