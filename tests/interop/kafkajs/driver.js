// KafkaJS for the interop tests: each line of input is a JSON array [step, ...arguments], each line of output its
// {result} or {error, name, type}. A step is a function below, or a method of KafkaJS's admin as "admin.METHOD".
'use strict'
const readline = require('node:readline')
const { Kafka, CompressionCodecs, CompressionTypes, Partitioners, logLevel } = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')

const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }
const LARGEST_BATCH = 16 << 20 // once decompressed; a zstd frame need not tell its size
const FETCH_BYTES = 4 << 20

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer, { defaultHeapSize: LARGEST_BATCH })),
})

const kafka = new Kafka({
  clientId: 'interop',
  brokers: [process.argv[2]],
  logLevel: logLevel.NOTHING,
  retry: { retries: 2 },
})
const admin = kafka.admin()

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const text = buffer => (buffer === null ? null : buffer.toString('base64'))

const headerMap = pairs => {
  const map = {}
  for (const [name, value] of pairs) (map[name] ??= []).push(bytes(value))
  return map
}
const headerPairs = map =>
  Object.entries(map).flatMap(([name, values]) => [values].flat().map(value => [name, text(value)]))

async function produce(topic, codec, records, idempotent) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent })
  const messages = records.map(record => ({
    ...record,
    key: bytes(record.key),
    value: bytes(record.value),
    headers: headerMap(record.headers),
  }))
  await producer.connect()
  try {
    return await producer.send({ topic, messages, compression: CompressionTypes[CODECS[codec]] })
  } finally {
    await producer.disconnect()
  }
}

// KafkaJS's consumer is always in a group; below it lies the cluster, which fetches what it is told to.
const createCluster = kafka[Object.getOwnPropertySymbols(kafka).find(s => s.description.endsWith('createCluster'))]

async function consume(topic, starts) {
  const cluster = createCluster({ metadataMaxAge: 300000, allowAutoTopicCreation: false })
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const ends = new Map((await admin.fetchTopicOffsets(topic)).map(row => [row.partition, Number(row.high)]))
    const [leader] = Object.keys(cluster.findLeaderForPartitions(topic, starts.map(([partition]) => partition)))
    return await fetchUpTo(await cluster.findBroker({ nodeId: leader }), topic, new Map(starts), ends)
  } finally {
    await cluster.disconnect()
  }
}

async function fetchUpTo(broker, topic, next, ends) {
  const records = []
  for (;;) {
    const partitions = [...next]
      .filter(([partition, offset]) => offset < ends.get(partition))
      .map(([partition, fetchOffset]) => ({ partition, fetchOffset, maxBytes: FETCH_BYTES }))
    if (partitions.length === 0) return records
    const topics = [{ topic, partitions }]
    const { responses } = await broker.fetch({ maxWaitTime: 500, minBytes: 1, maxBytes: FETCH_BYTES, topics })
    for (const { partition, messages } of responses[0].partitions) {
      // A batch is sent whole: what stands in it before the offset asked for is not wanted.
      const wanted = messages.filter(message => Number(message.offset) >= next.get(partition))
      if (wanted.length > 0) next.set(partition, Number(wanted.at(-1).offset) + 1)
      records.push(...wanted.map(message => row(partition, message)))
    }
  }
}

const row = (partition, { offset, timestamp, key, value, headers }) => ({
  partition,
  offset,
  timestamp,
  key: text(key),
  value: text(value),
  headers: headerPairs(headers),
})

const STEPS = { produce, consume }

async function run([step, ...args]) {
  try {
    const result = step.startsWith('admin.') ? await admin[step.slice(6)](...args) : await STEPS[step](...args)
    return { result: result ?? null }
  } catch (error) {
    const first = error.errors?.[0] ?? error
    return { error: first.message, name: first.name, type: first.type ?? first.cause?.type }
  }
}

async function main() {
  await zstd.init()
  await admin.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await run(JSON.parse(line))) + '\n')
  }
  await admin.disconnect()
}

main()
