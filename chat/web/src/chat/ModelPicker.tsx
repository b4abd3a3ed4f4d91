import { ChevronDown } from "lucide-react";
import { useServer } from "../server/store";
import { texts } from "../texts";
import { chooseModel, modelFor, useModelChoice } from "./model";

/** With one model, only its name is shown; without models, nothing is shown. */
export function ModelPicker({ chatId, begun }: { chatId: string; begun: boolean }) {
  const info = useServer((server) => server.info);
  const choices = useModelChoice();
  const models = info?.models ?? [];
  if (models.length === 0) return null;
  if (models.length === 1) return <span className="model-name clip">{models[0]?.name}</span>;
  return (
    <span className="model-picker">
      <select
        aria-label={texts.composer.model}
        value={modelFor(chatId, info, choices) ?? ""}
        onChange={(event) => chooseModel(chatId, event.target.value, begun)}
        data-testid="composer:model"
      >
        {models.map((model) => (
          <option key={model.id} value={model.id}>{model.name}</option>
        ))}
      </select>
      <ChevronDown aria-hidden />
    </span>
  );
}
