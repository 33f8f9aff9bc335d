// What the join kernels are measured by: a symmetric hash join over sliding windows as one would write it by hand for
// rows of three int64s (key, value, time). Each window is a ring of rows with chains from new to old; a new row looks
// its key up in the other windows and then enters its own. Times ascend in each stream.
//
// Rows of all streams that came together are taken in turns, a few at a time: so a walk passes over few that are too
// new for it, and windows hold few more rows than they must. Results go into memory that is used again.
//
// Built and called by joins.py: g++ -O3 -march=native.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace {

template <bool whole>
struct Row {
    int64_t key, time, value;
    uint32_t older;  // the next row of its bucket, numbered as they came
};

template <>
struct Row<false> {  // results have the numbers of rows
    int64_t key, time;
    uint32_t older;
};

template <bool whole>
struct Window {
    std::vector<Row<whole>> ring;
    std::vector<uint32_t> heads;
    uint32_t mask = 0, tail = 0, head = 0;  // rows tail .. head - 1 are alive
    int shift = 64;

    explicit Window(int bits = 10) { resize(bits); }

    uint32_t& bucket(int64_t key) { return heads[(uint64_t(key) * 0x9E3779B97F4A7C15u) >> shift]; }
    Row<whole>& at(uint32_t number) { return ring[number & mask]; }
    bool alive(uint32_t number) const { return number - tail < head - tail; }

    void link(uint32_t number) {
        uint32_t& newest = bucket(at(number).key);
        at(number).older = newest;
        newest = number;
    }

    void resize(int bits) {
        std::vector<Row<whole>> before(size_t(1) << bits);
        before.swap(ring);
        uint32_t mask_before = mask;
        mask = uint32_t(ring.size() - 1);
        shift = 64 - bits;
        heads.assign(ring.size(), tail - 1);  // a number that is not alive
        for (uint32_t number = tail; number != head; number++) {
            at(number) = before[number & mask_before];
            link(number);
        }
    }

    void add(int64_t key, int64_t value, int64_t time) {
        if (head - tail > mask) resize(64 - shift + 1);
        Row<whole>& row = at(head);
        row.key = key;
        row.time = time;
        if constexpr (whole) row.value = value;
        link(head++);
    }

    void expire(int64_t before) {
        while (tail != head && at(tail).time < before) tail++;
    }
};

struct Columns {
    const int64_t *keys, *values, *times;
};

struct Join {
    std::vector<int64_t> found;  // of each result: key and values, or else only the numbers of its rows
    int64_t count = 0;           // of int64s in use
    virtual ~Join() = default;
    virtual void push(int64_t rows, int64_t piece, const Columns* streams) = 0;
};

template <int streams, bool whole>
struct JoinOf final : Join {
    static constexpr int width = streams + whole;
    std::array<Window<whole>, streams> windows;
    int64_t within;

    explicit JoinOf(int64_t within) : within(within) { found.resize(1 << 16); }

    void emit(int64_t key, const std::array<int64_t, streams>& bound) {
        if (count + width > int64_t(found.size())) found.resize(2 * found.size());
        int64_t* to = found.data() + count;
        if constexpr (whole) *to++ = key;
        for (int stream = 0; stream < streams; stream++) to[stream] = bound[stream];
        count += width;
    }

    // Bind a row of each window that is left; newest and oldest are the times bound so far.
    template <int origin, int left>
    void meet(int64_t key, int64_t newest, int64_t oldest, std::array<int64_t, streams>& bound) {
        if constexpr (left == 0) {
            emit(key, bound);
        } else {
            constexpr int stream = (origin + left) % streams;
            Window<whole>& window = windows[stream];
            for (uint32_t number = window.bucket(key); window.alive(number);) {
                const Row<whole>& row = window.at(number);
                if (row.time < newest - within) break;
                if (row.key == key && row.time <= oldest + within) {
                    if constexpr (whole) bound[stream] = row.value;
                    else bound[stream] = number;
                    meet<origin, left - 1>(key, std::max(newest, row.time), std::min(oldest, row.time), bound);
                }
                number = row.older;
            }
        }
    }

    template <int origin>
    void take(int64_t first, int64_t last, const Columns* columns) {
        if constexpr (origin < streams) {
            auto [keys, values, times] = columns[origin];
            std::array<int64_t, streams> bound;
            for (int64_t i = first; i < last; i++) {
                bound[origin] = whole ? values[i] : i;
                meet<origin, streams - 1>(keys[i], times[i], times[i], bound);
                windows[origin].add(keys[i], values[i], times[i]);
            }
            take<origin + 1>(first, last, columns);
        }
    }

    void push(int64_t rows, int64_t piece, const Columns* columns) override {
        count = 0;
        for (int64_t first = 0; first < rows; first += piece) {
            int64_t last = std::min(rows, first + piece);
            take<0>(first, last, columns);
            int64_t reached = columns[0].times[last - 1];
            for (int stream = 1; stream < streams; stream++) reached = std::min(reached, columns[stream].times[last - 1]);
            for (Window<whole>& window : windows) window.expire(reached - within);
        }
    }
};

template <bool whole>
Join* join_of(int64_t streams, int64_t within) {
    switch (streams) {
        case 2: return new JoinOf<2, whole>(within);
        case 3: return new JoinOf<3, whole>(within);
        case 4: return new JoinOf<4, whole>(within);
        case 5: return new JoinOf<5, whole>(within);
        default: return new JoinOf<6, whole>(within);
    }
}

}  // namespace

extern "C" {

Join* make_join(int64_t streams, int64_t within, int64_t whole) {
    return whole ? join_of<true>(streams, within) : join_of<false>(streams, within);
}

void free_join(Join* join) { delete join; }

// As many rows of each stream come, and no row before the last of them will; they are taken so many at a time. Returns
// how many int64s of results there are at `results`.
int64_t push(Join* join, int64_t rows, int64_t piece, const void* columns, const int64_t** results) {
    join->push(rows, piece, static_cast<const Columns*>(columns));
    *results = join->found.data();
    return join->count;
}
}
