"""One thread a process: the tests run side by side, one process a core."""

import torch

torch.set_num_threads(1)
