#!/bin/sh
# Measures the kernels beside CUDA C++ and CUB, on a machine with a GPU and nvcc, which needs no
# Rust: run.sh FOLDER, with the executable cuda-rt-bench-kernels and nvcc.cu in the folder. Options
# behind the folder go to the executable. The table is also in FOLDER/kernels.md.
set -eu
folder=$(cd "${1:-.}" && pwd)
[ $# -gt 0 ] && shift
library="$folder/libnvcc.so"
if [ ! -e "$library" ] || [ "$folder/nvcc.cu" -nt "$library" ]; then
    nvcc -O3 -std=c++17 -arch="${ARCH:-native}" -shared -Xcompiler -fPIC \
        -o "$library" "$folder/nvcc.cu"
fi
"$folder/cuda-rt-bench-kernels" --library "$library" "$@" >"$folder/kernels.md"
cat "$folder/kernels.md"
