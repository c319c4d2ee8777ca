/* image_card.c - what a run knows of its images: any JSON, and what is accepted comes back the same
 * when it is written and read again. */
#include "data/image_card.h"
#include "fuzz/fuzz.h"

#include <string.h>

void fuzz_image_card(fuzz_room *room, fuzz_input input) {
    fuzz_path path = fuzz_file(room, "images.json");
    image_card card, again;
    fuzz_write(path, input.at, input.left);
    if (fuzz_fine(room, ebb__image_card_read(room->ctx, path.text, &card))) {
        fuzz_require(ebb__image_card_write(&card, path.text) == EBB_OK, "not written");
        fuzz_require(ebb__image_card_read(room->ctx, path.text, &again) == EBB_OK, "not read");
        fuzz_require(memcmp(&card.size, &again.size, sizeof card.size) == 0 &&
                         card.classes == again.classes && card.names_bytes == again.names_bytes &&
                         memcmp(card.mean, again.mean, sizeof card.mean) == 0 &&
                         memcmp(card.deviation, again.deviation, sizeof card.deviation) == 0,
                     "another card");
        fuzz_require(card.names_bytes == 0 ||
                         memcmp(card.names, again.names, card.names_bytes) == 0,
                     "other names");
        ebb__image_card_free(&again);
    }
    ebb__image_card_free(&card);
}
