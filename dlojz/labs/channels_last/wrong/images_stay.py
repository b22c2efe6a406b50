# expect: given images that lie as NCHW.*channels_last.batch
# >>> channels_last.batch
# <<< channels_last.batch
