/* units.h - numbers as a person would say them. */
#ifndef PAGE_UNITS_H
#define PAGE_UNITS_H

#include <stdint.h>

typedef struct unit_text {
    char text[24];
} unit_text;

unit_text ebb__unit_bytes(uint64_t bytes);   /* "12.3 MiB" */
unit_text ebb__unit_seconds(double seconds); /* "2m05s" */
unit_text ebb__unit_rate(double per_second); /* "12.3k" */
unit_text ebb__unit_score(double value);     /* of validation: "12.34" */

#endif
