/** Selects the project: one that the server lists, or one that a person types. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { projectsQuery } from '../api/queries.js'
import { Dialog } from '../parts/dialog.js'

const another = '\0another'
// The characters that the server allows in project names.
const namePattern = '[a-z0-9_\\-]{1,120}'

export function ProjectPicker({ project }: { readonly project: string }) {
  const navigate = useNavigate()
  const [isTyping, setTyping] = useState(false)
  const [typed, setTyped] = useState('')
  const listed = useQuery(projectsQuery).data ?? []
  const projects = [...new Set([project, ...listed])].sort()
  const go = (name: string) => void navigate({ to: '/p/$project/fleet', params: { project: name }, search: {} })
  return (
    <>
      <select
        className="field w-full max-w-56 truncate font-medium"
        aria-label="Project"
        value={project}
        onChange={(event) => {
          if (event.target.value === another) setTyping(true)
          else go(event.target.value)
        }}
      >
        {projects.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
        <option value={another}>Another…</option>
      </select>
      {isTyping && (
        <Dialog title="Another project" name="Another project" close={() => setTyping(false)}>
          <form
            className="flex gap-2"
            onSubmit={(event) => {
              event.preventDefault()
              setTyping(false)
              go(typed)
            }}
          >
            <input
              className="field flex-1"
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
              aria-label="Project name"
              pattern={namePattern}
              required
              placeholder="name"
            />
            <button type="submit" className="button">
              Go
            </button>
          </form>
        </Dialog>
      )}
    </>
  )
}
