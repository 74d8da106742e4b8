/* Kernels for tests of the runtime. */

struct row {
    const float *source;
    float *target;
    long long count;
    float factor;
};

/* target = factor * source, a sample for each row of blocks. */
extern "C" __global__ void scale(const row *rows, long long spins)
{
    row self = rows[blockIdx.y];
    long long started = clock64();
    while (clock64() - started < spins) /* what makes a race likely */
        ;
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < self.count; i += (long long)gridDim.x * blockDim.x)
        self.target[i] = self.factor * self.source[i];
}
