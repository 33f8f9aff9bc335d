"""What W-DISTINCT, W-MINUS and W-INTERSECT output for each tuple that enters or leaves their states.

Chains of slots by value are kept as each operator sees them at that moment: in `kernels/expiry.py` all of a batch
have come and gone already. Outputs are (kind, instant, slot, slot of the other side).
"""

from __future__ import annotations

from watersmeet.compiling import kernel
from watersmeet.papers.pipelines.kernels.expiry import ENTERED, EXPIRED, NONE, link, unlink

POSITIVE, NEGATIVE, INVALID = 1, -1, -2


@kernel
def distinct(slots, instants, causes, value, newest, oldest, older, newer, reported, out):
    """Algorithm 4.1, replacing by the newest equal tuple (AMB-25). `reported`: whether a slot is in DL."""
    made = 0
    for i in range(len(slots)):
        slot = slots[i]
        key = value[slot]
        if causes[i] == ENTERED:
            reported[slot] = newest[key] == NONE
            link(slot, key, newest, oldest, older, newer)
            if reported[slot]:
                out[made, 0], out[made, 1], out[made, 2] = POSITIVE, instants[i], slot
                made += 1
            continue
        unlink(slot, key, newest, oldest, older, newer)
        if not reported[slot]:
            continue
        if causes[i] != EXPIRED:  # who holds it above cannot tell by itself
            out[made, 0], out[made, 1], out[made, 2] = NEGATIVE, instants[i], slot
            made += 1
        other = newest[key]
        if other != NONE:
            reported[other] = True
            out[made, 0], out[made, 1], out[made, 2] = POSITIVE, instants[i], other
            made += 1
    return made


@kernel
def oldest_reported(key, oldest, newer, reported):
    slot = oldest[key]
    while not reported[slot]:
        slot = newer[slot]
    return slot


@kernel
def newest_silent(key, newest, older, reported):
    slot = newest[key]
    while reported[slot]:
        slot = older[slot]
    return slot


@kernel
def minus(
    slots, instants, causes, is_right, left_value, right_value, newest, oldest, older, newer, f_s, f_r, reported, out
):
    """Algorithm 4.2 with `>=` after the update in lines 5 and 31 (AMB-23), and in line 16 the newest tuple that is not
    output already (AMB-24). Values of both sides are those of the left state."""
    made = 0
    for i in range(len(slots)):
        slot, entered = slots[i], causes[i] == ENTERED
        if is_right[i]:
            key = right_value[slot]
            f_r[key] += 1 if entered else -1
            if entered and f_s[key] >= f_r[key]:
                gone = oldest_reported(key, oldest, newer, reported)
                reported[gone] = False
                out[made, 0], out[made, 1], out[made, 2] = INVALID, instants[i], gone
                made += 1
            elif not entered and f_s[key] > f_r[key]:
                back = newest_silent(key, newest, older, reported)
                reported[back] = True
                out[made, 0], out[made, 1], out[made, 2] = POSITIVE, instants[i], back
                made += 1
            continue
        key = left_value[slot]
        f_s[key] += 1 if entered else -1
        if entered:
            link(slot, key, newest, oldest, older, newer)
            reported[slot] = f_s[key] > f_r[key]
            if reported[slot]:
                out[made, 0], out[made, 1], out[made, 2] = POSITIVE, instants[i], slot
                made += 1
            continue
        unlink(slot, key, newest, oldest, older, newer)
        if f_s[key] < f_r[key]:
            continue
        if reported[slot]:
            if causes[i] != EXPIRED:
                out[made, 0], out[made, 1], out[made, 2] = NEGATIVE, instants[i], slot
                made += 1
        else:
            gone = oldest_reported(key, oldest, newer, reported)
            reported[gone] = False
            out[made, 0], out[made, 1], out[made, 2] = INVALID, instants[i], gone
            made += 1
    return made


@kernel
def unpaired(key, newest, older, partner):
    """The newest equal tuple without a partner."""
    slot = newest[key]
    while slot != NONE and partner[slot] != NONE:
        slot = older[slot]
    return slot


@kernel
def intersect(
    slots, instants, causes, is_right, left_value, right_value, newest_l, oldest_l, older_l, newer_l, newest_r,
    oldest_r, older_r, newer_r, partner_l, partner_r, out,
):  # fmt: skip
    """Not printed: pairs of equal tuples, one of each side, each a tuple of the output while both are there."""
    made = 0
    for i in range(len(slots)):
        slot = slots[i]
        right = is_right[i]
        key = right_value[slot] if right else left_value[slot]
        seeker_right, seeker = right, slot
        if causes[i] == ENTERED:
            if right:
                partner_r[slot] = NONE
                link(slot, key, newest_r, oldest_r, older_r, newer_r)
            else:
                partner_l[slot] = NONE
                link(slot, key, newest_l, oldest_l, older_l, newer_l)
        else:
            if right:
                unlink(slot, key, newest_r, oldest_r, older_r, newer_r)
                survivor = partner_r[slot]
            else:
                unlink(slot, key, newest_l, oldest_l, older_l, newer_l)
                survivor = partner_l[slot]
            if survivor == NONE:
                continue
            if causes[i] != EXPIRED:
                out[made, 0], out[made, 1] = NEGATIVE, instants[i]
                out[made, 2] = survivor if right else slot
                out[made, 3] = slot if right else survivor
                made += 1
            if right:
                partner_l[survivor] = NONE
            else:
                partner_r[survivor] = NONE
            seeker_right, seeker = not right, survivor
        if seeker_right:
            other = unpaired(key, newest_l, older_l, partner_l)
            one, two = other, seeker
        else:
            other = unpaired(key, newest_r, older_r, partner_r)
            one, two = seeker, other
        if other != NONE:
            partner_l[one], partner_r[two] = two, one
            out[made, 0], out[made, 1], out[made, 2], out[made, 3] = POSITIVE, instants[i], one, two
            made += 1
    return made


@kernel
def number_outputs(out, count, numbers, following):
    """A number for each positive output; one that is withdrawn has that of its positive. `numbers`: of each slot."""
    for i in range(count):
        slot = out[i, 2]
        if out[i, 0] == POSITIVE:
            numbers[slot] = following
            following += 1
        out[i, 4] = numbers[slot]
    return following
