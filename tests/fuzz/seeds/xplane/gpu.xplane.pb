
_		/host:CPUpythonË"ÙÄâz" "cudaLaunchKernel*correlation_id
ø	/device:GPU:34Stream #17(Kernel)–"€êN""	†ú®F"fusion_1"/+'ncclDevKernel_AllReduce_Sum_f32_RING_LL*correlation_id*memory_size2ÄÄ@buffer overflow