// What the join kernels are measured by: a symmetric hash join over sliding windows as one would write it by hand for
// rows of three int64s (key, value, time). Each window is a ring of rows with chains from new to old; a new row looks
// its key up in the other windows and then enters its own. Times ascend in each stream.
//
// Built and called by joins.py: g++ -O3 -march=native.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace {

struct Row {
    int64_t key, value, time;
    uint32_t older;  // the next row of its bucket, numbered as they came
};

struct Window {
    std::vector<Row> ring;
    std::vector<uint32_t> heads;
    uint32_t tail = 0, head = 0;  // rows tail .. head - 1 are alive
    int shift = 64;

    explicit Window(int bits = 10) { resize(bits); }

    uint32_t& bucket(int64_t key) { return heads[(uint64_t(key) * 0x9E3779B97F4A7C15u) >> shift]; }
    Row& at(uint32_t number) { return ring[number & (ring.size() - 1)]; }
    bool alive(uint32_t number) const { return number - tail < head - tail; }

    void link(uint32_t number) {
        uint32_t& newest = bucket(at(number).key);
        at(number).older = newest;
        newest = number;
    }

    void resize(int bits) {
        std::vector<Row> before(size_t(1) << bits);
        before.swap(ring);
        shift = 64 - bits;
        heads.assign(ring.size(), tail - 1);  // a number that is not alive
        for (uint32_t number = tail; number != head; number++) {
            at(number) = before[number & (before.size() - 1)];
            link(number);
        }
    }

    void add(int64_t key, int64_t value, int64_t time) {
        if (head - tail == ring.size()) resize(64 - shift + 1);
        at(head) = {key, value, time, 0};
        link(head++);
    }

    void expire(int64_t before) {
        while (tail != head && at(tail).time < before) tail++;
    }
};

struct Join {
    std::vector<int64_t> found;  // of each result: key and values, or else only the numbers of its rows
    virtual ~Join() = default;
    virtual void push(int origin, int64_t rows, const int64_t* keys, const int64_t* values, const int64_t* times) = 0;
    virtual void advance(int64_t time) = 0;
};

template <int streams, bool whole>
struct JoinOf final : Join {
    std::array<Window, streams> windows;
    int64_t within;

    explicit JoinOf(int64_t within) : within(within) {}

    // Bind a row of each window that is left; newest and oldest are the times bound so far.
    template <int left>
    void meet(int origin, int64_t key, int64_t newest, int64_t oldest, std::array<int64_t, streams>& bound) {
        if constexpr (left == 0) {
            if (whole) found.push_back(key);
            found.insert(found.end(), bound.begin(), bound.end());
        } else {
            int stream = (origin + left) % streams;
            Window& window = windows[stream];
            for (uint32_t number = window.bucket(key); window.alive(number);) {
                const Row& row = window.at(number);
                if (row.time < newest - within) break;
                if (row.key == key && row.time <= oldest + within) {
                    bound[stream] = whole ? row.value : number;
                    meet<left - 1>(origin, key, std::max(newest, row.time), std::min(oldest, row.time), bound);
                }
                number = row.older;
            }
        }
    }

    void push(int origin, int64_t rows, const int64_t* keys, const int64_t* values, const int64_t* times) override {
        std::array<int64_t, streams> bound;
        found.clear();
        for (int64_t i = 0; i < rows; i++) {
            bound[origin] = whole ? values[i] : i;
            meet<streams - 1>(origin, keys[i], times[i], times[i], bound);
            windows[origin].add(keys[i], values[i], times[i]);
        }
    }

    void advance(int64_t time) override {
        for (Window& window : windows) window.expire(time - within);
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

// Rows of one stream come; returns how many int64s of results there are at `results`.
int64_t push(Join* join, int64_t stream, int64_t rows, const int64_t* keys, const int64_t* values,
             const int64_t* times, const int64_t** results) {
    join->push(stream, rows, keys, values, times);
    *results = join->found.data();
    return join->found.size();
}

// No row before this time comes any more.
void advance(Join* join, int64_t time) { join->advance(time); }
}
