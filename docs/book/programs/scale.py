"""The program of the chapter "Coming from", in PyTorch."""

import torch

compute, download = torch.cuda.Stream(), torch.cuda.Stream()
with torch.cuda.stream(compute):
    x = torch.ones(1024, device="cuda")
    y = x * 2
download.wait_stream(compute)
with torch.cuda.stream(download):
    host = torch.empty(1024, pin_memory=True)
    host.copy_(y, non_blocking=True)
y.record_stream(download)  # or the allocator reuses `y` too early
download.synchronize()     # or `host` is read too early
print(host[0])
