/* image_set.h - labelled images as a file that is made once and read by number.
 *
 *   [ records: label, 32 bits, pixels u8 [Y,X,C] | names | trailer, 23 fields of 64 bits ]
 *
 * All little-endian. Record i starts at byte i * record_bytes. Names of classes each have a zero
 * byte after them; there may be none. What would be a header stands at the end, since counts, sums
 * and hashes are known only then. The trailer names the files that the set was made of (size,
 * XXH3-64), which of their images it has, and the XXH3-64 of the records, of the names and of
 * itself. A set that is stale, damaged or foreign is made again, never trusted.
 *
 * Sums of pixels and of their squares, by channel, are whole numbers: the mean and the standard
 * deviation that follow from them do not depend on any order. */
#ifndef DATA_IMAGE_SET_H
#define DATA_IMAGE_SET_H

#include "data/image_files.h"
#include "data/image_split.h"

/* Which images of the files: all, or one side of a split (image_split.h). */
typedef enum image_side { IMAGE_ALL, IMAGE_KEPT, IMAGE_HELD } image_side;

typedef struct image_choice {
    uint32_t classes; /* every label must be below; 0: as many as the files have */
    image_side side;
    uint32_t share; /* held back, in millionths; only with a side */
    uint64_t seed;  /* of the split; only with a side */
} image_choice;

/* What there is to know of a set without a look at its images. */
typedef struct image_facts {
    image_size size;
    uint64_t count;
    uint32_t classes;
    uint64_t sums[IMAGE_MOST_CHANNELS], squares[IMAGE_MOST_CHANNELS]; /* of all pixels */
    uint64_t hash; /* of all records: the same images and labels to a model */
} image_facts;

/* Of a channel, in the units of pixels, 0 to 255. The deviation is that of all pixels (divided by
 * their number), and 0 where all are equal: whoever divides by it must look. */
double ebb__image_mean(const image_facts *facts, uint32_t channel);
double ebb__image_deviation(const image_facts *facts, uint32_t channel);

typedef struct image_set {
    ebb_ctx *ctx;
    int fd;
    char path[1024];
    image_facts facts;
    size_t record_bytes; /* IMAGE_LABEL and the pixels */
    char *names;         /* NULL: there are none */
    size_t names_bytes;
    uint64_t file_bytes;
    bool made; /* just now; else found whole */
} image_set;

enum { IMAGE_LABEL = 4 }; /* bytes of a record before its pixels */

/* Opens set_path if it holds exactly the images chosen of these files, every record checked; makes
 * it first otherwise. On failure nothing is held, and the old file stays. EBB_DATA if the files
 * have a label that is not below choice->classes, or if no image is chosen. */
ebb_status ebb__image_set_ensure(const image_files *files, const image_choice *choice,
                                 const char *set_path, image_set *out) EBB_MUST_CHECK;
/* The same in a file that has no name, and is gone when it is closed: see ebb__file_create_unnamed.
 */
ebb_status ebb__image_set_unnamed(const image_files *files, const image_choice *choice,
                                  const char *path, image_set *out) EBB_MUST_CHECK;
/* Whether the file looks like a set. */
ebb_status ebb__image_set_known(ebb_ctx *ctx, const char *path, bool *out) EBB_MUST_CHECK;
/* Opens a set, whatever it was made of, every record checked. EBB_DATA if it is none, or damaged.
 */
ebb_status ebb__image_set_open(ebb_ctx *ctx, const char *set_path, image_set *out) EBB_MUST_CHECK;
/* The facts of the set that would be made. Reads all images, writes nothing. */
ebb_status ebb__image_set_measure(const image_files *files, const image_choice *choice,
                                  image_facts *out) EBB_MUST_CHECK;
/* Image `number` into `record`, of record_bytes: its pixels begin at record + IMAGE_LABEL. The
 * label is below facts.classes; EBB_DATA if the file no longer holds what was checked. Allocates
 * nothing; may be called by several threads, each with a record of its own. */
ebb_status ebb__image_set_read(const image_set *set, uint64_t number, uint8_t *record,
                               int32_t *label) EBB_MUST_CHECK;
/* The name of a class; NULL if it has none. */
const char *ebb__image_set_name(const image_set *set, int32_t label);
void ebb__image_set_close(image_set *set);

#endif
