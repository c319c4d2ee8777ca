/* events.h - an independent reader of TensorBoard event files for the tests: every record's sums,
 * and of every event the step, the scalars and whether it is a START. */
#ifndef TESTS_SUPPORT_EVENTS_H
#define TESTS_SUPPORT_EVENTS_H

#include "train/run_help.h"

enum { EVENT_SCALARS = 8, EVENTS_MOST = 512 };

typedef struct event_seen {
    double seconds;
    int64_t step;
    bool version, start;
    int n;
    struct {
        char tag[32];
        float value;
    } scalar[EVENT_SCALARS];
} event_seen;

typedef struct events_seen {
    int n, files;
    event_seen at[EVENTS_MOST];
} events_seen;

/* CRC-32C bit by bit, as the format masks it. */
static inline uint32_t event_sum(const uint8_t *data, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
        }
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

static inline uint64_t event_little(const uint8_t *data, int n) {
    uint64_t value = 0;
    for (int i = 0; i < n; i++) {
        value |= (uint64_t)data[i] << (8 * i);
    }
    return value;
}

/* One field of a message; false at its end. */
typedef struct event_field {
    uint64_t number, value; /* of bytes: how many */
    const uint8_t *bytes;
} event_field;
static inline uint64_t event_varint(const uint8_t **at, const uint8_t *end) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(*at < end && shift < 64);
        value |= (uint64_t)(**at & 127) << shift;
        if (*(*at)++ < 128) {
            return value;
        }
    }
}
static inline bool event_next(const uint8_t **at, const uint8_t *end, event_field *field) {
    if (*at == end) {
        return false;
    }
    uint64_t key = event_varint(at, end), type = key & 7;
    uint64_t n = type == 1 ? 8 : type == 5 ? 4 : 0;
    *field = (event_field){.number = key >> 3};
    assert_true(type == 0 || type == 1 || type == 2 || type == 5);
    if (type == 0 || type == 2) {
        field->value = event_varint(at, end);
        n = type == 2 ? field->value : 0;
    }
    assert_true(n <= (uint64_t)(end - *at));
    field->bytes = *at;
    field->value = n > 0 && type != 2 ? event_little(*at, (int)n) : field->value;
    *at += n;
    return true;
}

static inline void event_scalar(const uint8_t *at, const uint8_t *end, event_seen *out) {
    event_field field;
    assert_true(out->n < EVENT_SCALARS);
    while (event_next(&at, end, &field)) {
        if (field.number == 1) {
            assert_true(field.value < sizeof out->scalar[0].tag);
            memcpy(out->scalar[out->n].tag, field.bytes, field.value);
        } else {
            uint32_t bits = (uint32_t)field.value;
            assert_int_equal(field.number, 2);
            memcpy(&out->scalar[out->n].value, &bits, sizeof bits);
        }
    }
    out->n++;
}

static inline event_seen event_parse(const uint8_t *at, const uint8_t *end) {
    event_seen seen = {0};
    event_field field, value;
    while (event_next(&at, end, &field)) {
        const uint8_t *inner = field.bytes, *inner_end = field.bytes + field.value;
        switch (field.number) {
        case 1:
            memcpy(&seen.seconds, &field.value, sizeof seen.seconds);
            break;
        case 2:
            seen.step = (int64_t)field.value;
            break;
        case 3:
            assert_true(field.value == 13 && memcmp(field.bytes, "brain.Event:2", 13) == 0);
            seen.version = true;
            break;
        case 5:
            while (event_next(&inner, inner_end, &value)) {
                assert_int_equal(value.number, 1);
                event_scalar(value.bytes, value.bytes + value.value, &seen);
            }
            break;
        default:
            assert_int_equal(field.number, 7);
            assert_true(field.value == 2 && inner[0] == 8 && inner[1] == 1);
            seen.start = true;
        }
    }
    return seen;
}

/* All records of a file, which must be whole and begin with the version and a START; of one that
 * was emptied none. */
static inline void events_read(const char *path, events_seen *out) {
    run_bytes all = run_read(path);
    const uint8_t *data = (const uint8_t *)all.data;
    int first = out->n;
    for (size_t at = 0; at < all.bytes;) {
        assert_true(all.bytes - at > 16 && out->n < EVENTS_MOST);
        uint64_t n = event_little(data + at, 8);
        assert_true(n <= all.bytes - at - 16);
        assert_int_equal(event_little(data + at + 8, 4), event_sum(data + at, 8));
        assert_int_equal(event_little(data + at + 12 + n, 4), event_sum(data + at + 12, n));
        out->at[out->n++] = event_parse(data + at + 12, data + at + 12 + n);
        at += n + 16;
    }
    if (all.bytes > 0) {
        assert_true(out->n >= first + 2 && out->at[first].version && out->at[first + 1].start);
        out->files++;
    }
    free(all.data);
}

/* Those of a folder's event files, in the order of their names. */
static inline events_seen *events_of(const char *dir) {
    events_seen *seen = calloc(1, sizeof *seen);
    struct dirent **names = NULL;
    assert_non_null(seen);
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (strstr(names[i]->d_name, "tfevents") != NULL) {
            events_read(run_join(dir, names[i]->d_name).text, seen);
        }
        free(names[i]);
    }
    free(names);
    return seen;
}

#endif
