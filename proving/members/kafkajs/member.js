// Group members of KafkaJS, as many as wanted in one process. Each line of input is told to a member,
// {do: 'join', 'commit alone', 'produce', 'pause', 'resume' or 'close', member, ...}; each line of output is what a
// member tells, {at, member, kind, ...}. `at` is the machine's monotonic clock in seconds, as in the Python members.
'use strict'
const fs = require('node:fs')
const readline = require('node:readline')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const members = new Map()

const say = (member, kind, more = {}) =>
  process.stdout.write(JSON.stringify({ at: Number(process.hrtime.bigint()) / 1e9, member, kind, ...more }) + '\n')

const placesOf = assignment =>
  Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map(partition => [topic, partition]))

// Without what is left to KafkaJS.
const given = settings => Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null))

// KafkaJS has no names of Kafka's for TLS and SASL: these are Node.js's and its own.
const secured = security => {
  if (security === null) return { brokers: process.argv[2].split(',') }
  const { bootstrap_servers, ca_file, certificate, mechanism, user, password } = security
  const ssl = { ca: [fs.readFileSync(ca_file)] }
  if (certificate !== null) ssl.cert = ssl.key = fs.readFileSync(certificate)
  const sasl =
    mechanism === 'OAUTHBEARER'
      ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token(user) }) }
      : { mechanism: mechanism?.toLowerCase(), username: user, password }
  // By default it authenticates anew ten seconds before a session ends: with each request, if the session is shorter.
  const login = { sasl, reauthenticationThreshold: 500 }
  return { brokers: bootstrap_servers.split(','), ssl, ...(mechanism === null ? {} : login) }
}

// Without a signature.
const token = user => {
  const now = Math.floor(Date.now() / 1000)
  const parts = [{ alg: 'none' }, { sub: user, iat: now, exp: now + 3600 }]
  return parts.map(part => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.') + '.'
}

const connect = ({ security }) =>
  new Kafka({
    clientId: 'kafkajs',
    ...secured(security),
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 20 },
  })

async function join(told) {
  const { member } = told
  const consumer = connect(told).consumer({
    groupId: told.group,
    partitionAssigners: [PartitionAssigners.roundRobin],
    ...given({
      sessionTimeout: told.session_ms,
      heartbeatInterval: told.heartbeat_ms,
      rebalanceTimeout: told.max_poll_ms,
      metadataMaxAge: told.metadata_age_ms,
      maxWaitTimeInMs: told.fetch_wait_ms,
    }),
  })
  members.set(member, { consumer, pausing: false, goOn: null })
  const { GROUP_JOIN, REBALANCING, REQUEST, CRASH } = consumer.events
  let owns = false
  const stop = () => {
    if (owns) say(member, 'stopped')
    owns = false
  }
  consumer.on(GROUP_JOIN, ({ payload }) => {
    owns = true
    say(member, 'assigned', { places: placesOf(payload.memberAssignment), whole: true })
  })
  consumer.on(REBALANCING, stop)
  // When it finds its metadata stale, it joins again without a word.
  consumer.on(REQUEST, ({ payload }) => payload.apiName === 'JoinGroup' && stop())
  // What it holds to be temporary it survives by starting anew, as another member.
  consumer.on(CRASH, ({ payload: { error, restart } }) => say(member, restart ? 'stopped' : 'error', { error: String(error) }))
  await consumer.connect()
  const topics = told.pattern === null ? told.topics : [new RegExp(told.pattern)]
  await consumer.subscribe({ topics, fromBeginning: true })
  const autoCommit = told.commit === 'auto'
  await consumer.run({
    autoCommit,
    eachBatch: async ({ batch, commitOffsetsIfNecessary }) => {
      const rows = batch.messages.map(({ offset }) => [batch.topic, batch.partition, Number(offset)])
      say(member, 'records', { rows })
      await pauseIfTold(member)
      if (!autoCommit) await commit(member, batch, commitOffsetsIfNecessary)
    },
  })
}

async function pauseIfTold(name) {
  const member = members.get(name)
  if (!member.pausing) return
  member.pausing = false
  const resumed = new Promise(resolve => { member.goOn = resolve })
  say(name, 'paused')
  await resumed
}

async function commit(member, { topic, partition, messages }, commitOffsets) {
  const offset = String(Number(messages.at(-1).offset) + 1)
  try {
    await commitOffsets({ topics: [{ topic, partitions: [{ partition, offset }] }] })
  } catch (error) {
    say(member, 'refused', { error: error.type ?? error.name })
    throw error // KafkaJS decides by it whether it joins again
  }
  say(member, 'committed')
}

// KafkaJS commits for no group that it is not a member of, but its admin sets offsets.
async function commitAlone(told) {
  const { member, group, place: [topic, partition], offset } = told
  const admin = connect(told).admin()
  await admin.connect()
  try {
    await admin.setOffsets({ groupId: group, topic, partitions: [{ partition, offset: String(offset) }] })
    say(member, 'committed')
  } catch (error) {
    say(member, 'refused', { error: error.type ?? error.name })
  } finally {
    await admin.disconnect()
  }
  say(member, 'closed')
}

async function produce(told) {
  const producer = connect(told).producer()
  await producer.connect()
  const numbers = [...Array(told.count).keys()]
  for (const [topic, partition] of told.places) {
    await producer.send({ topic, messages: numbers.map(number => ({ partition, value: String(number) })) })
  }
  await producer.disconnect()
  say(told.member, 'closed')
}

async function pause({ member }) {
  members.get(member).pausing = true
  say(member, 'pausing')
}

async function resume({ member }) {
  members.get(member).goOn()
}

async function close({ member }) {
  say(member, 'stopped')
  await members.get(member).consumer.disconnect()
  say(member, 'closed')
}

const STEPS = { join, 'commit alone': commitAlone, produce, pause, resume, close }
const input = readline.createInterface({ input: process.stdin })
input.on('line', line => {
  const told = JSON.parse(line)
  STEPS[told.do](told).catch(error => say(told.member, 'error', { error: String(error) }))
})
input.on('close', () => process.exit(0))
