/** Adds or changes a schedule. The server checks it, and its error names the key. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { missedPolicies, overlapPolicies } from '@bellwether/protocol/vocabulary'
import { addSchedule, changeSchedule } from '../../api/mutations.js'
import type { Schedule, ScheduleInput } from '../../api/types.js'
import { keysOf, missedWords, overlapWords } from '../../model/schedule.js'
import { oneLine } from '../../model/text.js'
import { Dialog } from '../../parts/dialog.js'
import { FormEnd } from '../../parts/work-fields.js'

interface FormProps {
  readonly project: string
  /** Absent: a new one. */
  readonly schedule?: Schedule
  readonly close: () => void
}

export function ScheduleForm({ project, schedule, close }: FormProps) {
  const before = schedule === undefined ? {} : keysOf(schedule)
  const client = useQueryClient()
  const [isTask, setTask] = useState(before.task !== undefined)
  const [isRepeating, setRepeating] = useState(before.every !== undefined)
  const save = useMutation({
    mutationFn: ({ name, definition }: { name: string; definition: ScheduleInput }) =>
      schedule === undefined ? addSchedule(project, name, definition) : changeSchedule(project, name, definition),
    onSuccess: close,
    onSettled: () => client.invalidateQueries({ queryKey: ['schedules', project] }),
  })
  function submit(form: FormData): void {
    const text = (key: string) => {
      const value = form.get(key)
      return typeof value === 'string' ? value.trim() : ''
    }
    const timing = isRepeating ? { every: text('when') } : { cron: text('when'), time_zone: text('zone') }
    const target = isTask
      ? { task: { ...before.task, title: text('what'), ...optional('instruction', text('instruction')) } }
      : { agent: text('what'), instruction: text('instruction') }
    const { cron: _cron, every: _every, task: _task, agent: _agent, instruction: _instruction, ...rest } = before
    const policies = { missed: text('missed'), overlap: text('overlap') }
    const definition = { ...rest, ...policies, ...timing, ...target } as ScheduleInput
    save.mutate({ name: schedule?.schedule ?? text('name'), definition })
  }
  const { error } = save
  const title = schedule === undefined ? 'New schedule' : `Change ${oneLine(schedule.schedule, 60)}`
  return (
    <Dialog title={title} name={title} close={close}>
      <form
        className="space-y-3"
        onSubmit={(event) => {
          event.preventDefault()
          submit(new FormData(event.currentTarget))
        }}
      >
        {schedule === undefined && (
          <Field label="Name">
            <input
              className="field mt-1 w-full"
              name="name"
              required
              pattern="[a-z0-9][a-z0-9_\-]{0,63}"
              placeholder="nightly"
            />
          </Field>
        )}
        <Field label="When">
          <select
            className="field mt-1 w-full"
            value={isRepeating ? 'every' : 'cron'}
            onChange={(event) => setRepeating(event.target.value === 'every')}
          >
            <option value="cron">at local times (cron)</option>
            <option value="every">at an interval</option>
          </select>
        </Field>
        <Field label={isRepeating ? 'Interval' : 'Cron: minute, hour, day of month, month, day of week'}>
          <input
            key={isRepeating ? 'every' : 'cron'}
            className="field mt-1 w-full font-mono"
            name="when"
            required
            defaultValue={isRepeating ? before.every : before.cron}
            placeholder={isRepeating ? '6h' : '30 2 * * *'}
          />
        </Field>
        {!isRepeating && (
          <Field label="Time zone">
            <input
              className="field mt-1 w-full"
              name="zone"
              required
              list="time-zones"
              defaultValue={before.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone}
            />
            <datalist id="time-zones">
              {Intl.supportedValuesOf('timeZone').map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
          </Field>
        )}
        <Field label="Starts">
          <select
            className="field mt-1 w-full"
            value={isTask ? 'task' : 'turn'}
            onChange={(event) => setTask(event.target.value === 'task')}
          >
            <option value="turn">a turn of an agent</option>
            <option value="task">a task on the board</option>
          </select>
        </Field>
        <Field label={isTask ? 'Title of the task' : 'Agent'}>
          <input
            key={isTask ? 'task' : 'agent'}
            className="field mt-1 w-full"
            name="what"
            required
            defaultValue={isTask ? before.task?.title : before.agent}
          />
        </Field>
        <Field label="Instruction">
          <textarea
            className="field mt-1 min-h-24 w-full"
            name="instruction"
            required={!isTask}
            defaultValue={isTask ? before.task?.instruction : before.instruction}
          />
        </Field>
        <Field label="If missed while nothing ran">
          <Choice name="missed" values={missedPolicies} words={missedWords} value={before.missed ?? 'latest'} />
        </Field>
        <Field label="If an earlier one is open">
          <Choice name="overlap" values={overlapPolicies} words={overlapWords} value={before.overlap ?? 'skip'} />
        </Field>
        <FormEnd error={error} name="Save" isBusy={save.isPending} close={close} />
      </form>
    </Dialog>
  )
}

const optional = (key: string, value: string) => (value === '' ? {} : { [key]: value })

function Field({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <label className="block">
      <span className="font-medium">{label}</span>
      {children}
    </label>
  )
}

function Choice({
  name,
  values,
  words,
  value,
}: {
  readonly name: string
  readonly values: readonly string[]
  readonly words: Readonly<Record<string, string>>
  readonly value: string
}) {
  return (
    <select className="field mt-1 w-full" name={name} defaultValue={value}>
      {values.map((one) => (
        <option key={one} value={one}>
          {words[one] ?? one}
        </option>
      ))}
    </select>
  )
}
