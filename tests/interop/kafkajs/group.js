// Group members of KafkaJS for the interop tests, as many as wanted in one process. Each line of input is told to a
// member, {do: 'join' or 'close', member, ...}; each line of output is what a member tells, {at, member, kind, ...}.
// `at` is the machine's monotonic clock in seconds, as in the Python members.
'use strict'
const readline = require('node:readline')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const members = new Map()

const say = (member, kind, more = {}) =>
  process.stdout.write(JSON.stringify({ at: Number(process.hrtime.bigint()) / 1e9, member, kind, ...more }) + '\n')

const placesOf = assignment =>
  Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map(partition => [topic, partition]))

async function join(told) {
  const { member } = told
  const kafka = new Kafka({
    clientId: 'kafkajs',
    brokers: [process.argv[2]],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 20 },
  })
  const consumer = kafka.consumer({
    groupId: told.group,
    sessionTimeout: told.session_ms,
    heartbeatInterval: told.heartbeat_ms,
    rebalanceTimeout: Math.max(told.session_ms, 60000),
    metadataMaxAge: told.metadata_age_ms,
    maxWaitTimeInMs: 50,
    partitionAssigners: [PartitionAssigners.roundRobin],
  })
  members.set(member, consumer)
  const { GROUP_JOIN, REBALANCING, CRASH } = consumer.events
  consumer.on(GROUP_JOIN, ({ payload }) => say(member, 'assigned', { places: placesOf(payload.memberAssignment), whole: true }))
  consumer.on(REBALANCING, () => say(member, 'stopped'))
  // What it holds to be temporary it survives by starting anew, as another member.
  consumer.on(CRASH, ({ payload: { error, restart } }) => say(member, restart ? 'stopped' : 'error', { error: String(error) }))
  await consumer.connect()
  const topics = told.pattern === null ? told.topics : [new RegExp(told.pattern)]
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    eachBatch: async ({ batch }) => {
      const rows = batch.messages.map(({ offset }) => [batch.topic, batch.partition, Number(offset)])
      say(member, 'records', { rows })
    },
  })
}

async function close({ member }) {
  say(member, 'stopped')
  await members.get(member).disconnect()
  say(member, 'closed')
}

const STEPS = { join, close }
const input = readline.createInterface({ input: process.stdin })
input.on('line', line => {
  const told = JSON.parse(line)
  STEPS[told.do](told).catch(error => say(told.member, 'error', { error: String(error) }))
})
input.on('close', () => process.exit(0))
