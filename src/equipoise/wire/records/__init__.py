"""Record batches v2: headers, building, reading one by one, decoding to Arrow, codecs."""
