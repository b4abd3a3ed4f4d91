import { Monitor, Moon, Sun } from "lucide-react";
import { texts } from "../texts";
import { announce } from "../ui/announce";
import { IconButton } from "../ui/IconButton";
import { nextTheme, useTheme } from "../ui/theme";

const ICONS = { system: <Monitor />, light: <Sun />, dark: <Moon /> };

export function ThemeButton() {
  const theme = useTheme((state) => state.theme);
  const change = () => {
    nextTheme();
    announce(`${texts.theme.label}: ${texts.theme[useTheme.getState().theme]}`);
  };
  return <IconButton label={`${texts.theme.label}: ${texts.theme[theme]}`} onClick={change} testId="theme:toggle">{ICONS[theme]}</IconButton>;
}
