Apex flag is True
==PROF== Connected to process 3 (/usr/bin/python3.7)
step "1" done
==PROF== Disconnected from process 3
"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","Section Name","Metric Name","Metric Unit","Metric Value"
"0","3","python3.7","127.0.0.1","relu(float*, int)","2020-Jun-10 02:04:32","1","7","Command line profiler metrics","dram__bytes.sum","byte","8"
"1","3","python3.7","127.0.0.1","volta_h884_gemm_64x64_nt","2020-Jun-10 02:04:32","1","7","Command line profiler metrics","dram__bytes.sum","byte","100"
"2","3","python3.7","127.0.0.1","volta_h884_gemm_64x64_nt","2020-Jun-10 02:04:32","1","7","Command line profiler metrics","dram__bytes.sum","byte","300"
"3","3","python3.7","127.0.0.1","fill","2020-Jun-10 02:04:32","1","7","Command line profiler metrics","dram__bytes.sum","byte","0"
